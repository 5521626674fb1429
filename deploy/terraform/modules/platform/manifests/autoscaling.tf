# More processes when there is more to do. Without Prometheus by processor time, with what Kubernetes
# has; with it by KEDA, whose query stands here and not in the settings of an adapter for the whole
# cluster. A backlog that nobody reads is not the forwarders': it does not count.

locals {
  keda    = var.autoscaling.prometheus_url != null
  growing = [for role, grows in local.grows : role if grows]

  autoscalers = [for role in local.growing : {
    apiVersion = "autoscaling/v2"
    kind       = "HorizontalPodAutoscaler"
    metadata   = { name = local.components[role], namespace = var.namespace, labels = local.server_labels[role] }
    spec = {
      scaleTargetRef = { apiVersion = "apps/v1", kind = "Deployment", name = local.components[role] }
      minReplicas    = local.roles[role].replicas
      maxReplicas    = local.roles[role].max_replicas
      metrics = [{ type = "Resource", resource = {
        name = "cpu", target = { type = "Utilization", averageUtilization = var.autoscaling.cpu_percent }
      } }]
      behavior = local.slowly_down
    }
  } if !local.keda]

  # What moves costs a pause of some milliseconds each: one fewer at a time, and not at once.
  slowly_down = { scaleDown = { stabilizationWindowSeconds = 600, policies = [{ type = "Pods", value = 1, periodSeconds = 120 }] } }

  backlog_query = "sum(packetboat_subscribe_consumed_backlog{namespace=\"${var.namespace}\"})"
  waiting_runs  = "max(packetboat_scheduler_export_runs_live{namespace=\"${var.namespace}\",state=\"queued\"}) + max(packetboat_scheduler_export_runs_live{namespace=\"${var.namespace}\",state=\"running\"})"

  scaled_objects = concat(
    [for role in local.growing : {
      apiVersion = "keda.sh/v1alpha1"
      kind       = "ScaledObject"
      metadata   = { name = local.components[role], namespace = var.namespace, labels = local.server_labels[role] }
      spec = {
        scaleTargetRef  = { name = local.components[role] }
        minReplicaCount = local.roles[role].replicas
        maxReplicaCount = local.roles[role].max_replicas
        advanced        = { horizontalPodAutoscalerConfig = { behavior = local.slowly_down } }
        triggers = concat(
          [{ type = "cpu", metricType = "Utilization", metadata = { value = tostring(var.autoscaling.cpu_percent) } }],
          [for query in role == "subscribe" ? [local.backlog_query] : [] : {
            type       = "prometheus"
            metricType = "AverageValue"
            metadata   = { serverAddress = var.autoscaling.prometheus_url, query = query, threshold = tostring(var.autoscaling.backlog_per_forwarder) }
          }],
        )
      }
    } if local.keda],
    [for exports in local.runners_grow ? [var.exports] : [] : {
      apiVersion = "keda.sh/v1alpha1"
      kind       = "ScaledObject"
      metadata   = { name = local.components["export-runner"], namespace = var.namespace, labels = local.runner_labels }
      spec = {
        scaleTargetRef  = { name = local.components["export-runner"] }
        minReplicaCount = exports.replicas
        maxReplicaCount = exports.max_replicas
        advanced        = { horizontalPodAutoscalerConfig = { behavior = local.slowly_down } }
        triggers = [{
          type       = "prometheus"
          metricType = "AverageValue"
          metadata   = { serverAddress = var.autoscaling.prometheus_url, query = local.waiting_runs, threshold = "1" }
        }]
      }
    }],
  )
}
