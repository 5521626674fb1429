# What Prometheus reads, the alerts of deploy/prometheus, the dashboards of deploy/grafana.

locals {
  monitor_labels = merge(local.labels, var.monitoring.labels)
  dashboards     = fileset("${path.module}/files/grafana", "*.json")

  monitoring_objects = concat(
    [for name in var.monitoring.operator ? [var.name] : [] : {
      apiVersion = "monitoring.coreos.com/v1"
      kind       = "PodMonitor"
      metadata   = { name = name, namespace = var.namespace, labels = local.monitor_labels }
      spec = {
        selector        = { matchLabels = local.select, matchExpressions = [{ key = local.component, operator = "In", values = concat(["store", "front", "export-runner"], local.servers) }] }
        podTargetLabels = [local.component]
        # "packetboat": what the alerts know our jobs by.
        jobLabel            = "app.kubernetes.io/name"
        podMetricsEndpoints = [{ port = "metrics", path = "/metrics", interval = var.monitoring.interval }]
      }
    }],
    [for rules in var.monitoring.operator ? [yamldecode(file("${path.module}/files/prometheus/rules.yaml"))] : [] : {
      apiVersion = "monitoring.coreos.com/v1"
      kind       = "PrometheusRule"
      metadata   = { name = var.name, namespace = var.namespace, labels = local.monitor_labels }
      spec       = rules
    }],
    [for name in var.monitoring.dashboards ? local.dashboards : [] : {
      apiVersion = "v1"
      kind       = "ConfigMap"
      metadata = {
        name      = "${var.name}-dashboard-${trimsuffix(name, ".json")}"
        namespace = var.namespace
        labels    = merge(local.labels, { grafana_dashboard = "1" })
      }
      data = { (name) = file("${path.module}/files/grafana/${name}") }
    }],
  )
}
