# Runners of exports: clients of the platform, with Spark. What Spark's master is stands with each
# lake.

locals {
  runners      = var.exports == null ? [] : [var.exports]
  runners_grow = var.exports == null ? false : var.exports.max_replicas > var.exports.replicas && var.autoscaling.enabled && local.keda
  lake_names = (
    var.exports == null ? [] :
    var.exports.lakes == null ? var.exports.lake_names : [for lake in nonsensitive(var.exports.lakes) : nonsensitive(lake.name)]
  )
  lakes_secret  = try(coalesce(var.exports.lakes_secret, "${var.name}-lakes"), "")
  runner_select = merge(local.select, { (local.component) = "export-runner" })
  runner_labels = merge(local.labels, { (local.component) = "export-runner" })

  # A driver of a cluster is called by its executors: at ports that the network policy knows, which
  # Spark counts up from where one is taken.
  lakes = [for lake in try(var.exports.lakes, []) : merge(lake, {
    for name, conf in { spark_conf = merge({
      "spark.driver.port"       = tostring(local.ports.driver)
      "spark.blockManager.port" = tostring(local.ports.block_manager)
    }, try(lake.spark_conf, {})) } : name => conf if !startswith(try(lake.spark_master, "local[*]"), "local")
  })]

  lakes_objects = [for exports in local.runners : {
    apiVersion = "v1"
    kind       = "Secret"
    metadata   = { name = local.lakes_secret, namespace = var.namespace, labels = local.runner_labels }
    type       = "Opaque"
    data       = { "lakes.json" = base64encode(jsonencode({ lakes = local.lakes })) }
  } if exports.lakes_secret == null]

  runner_settings = { for exports in local.runners : "all" => merge(exports.settings, {
    PACKETBOAT_LAKES                = "/etc/packetboat/lakes/lakes.json"
    PACKETBOAT_LOG_LEVEL            = var.log_level
    PACKETBOAT_RUNNER_DRAIN_SECONDS = tostring(exports.drain_s)
    PACKETBOAT_RUNNER_DRIVER_MEMORY = exports.driver_memory
    PACKETBOAT_RUNNER_METRICS_HOST  = "0.0.0.0"
    PACKETBOAT_RUNNER_METRICS_PORT  = tostring(local.ports.runner)
    PACKETBOAT_RUNNER_NAME          = "$(POD_NAME)"
    PACKETBOAT_RUNNER_STATE_DIR     = "/var/lib/packetboat/runner"
    PACKETBOAT_URL                  = "http://${local.components.front}.${local.domain}"
  }) }

  runner_objects = [for exports in local.runners : {
    apiVersion = "apps/v1"
    kind       = "Deployment"
    metadata   = { name = local.components["export-runner"], namespace = var.namespace, labels = local.runner_labels }
    spec = merge({
      revisionHistoryLimit = 5
      selector             = { matchLabels = local.runner_select }
      strategy             = { type = "RollingUpdate", rollingUpdate = { maxSurge = 1, maxUnavailable = 0 } }
      template = {
        metadata = {
          labels      = local.runner_labels
          annotations = { "packetboat.io/lakes" = nonsensitive(sha256(jsonencode([exports.lakes, exports.lakes_secret]))) }
        }
        spec = merge(local.pod, {
          serviceAccountName = local.components["export-runner"]
          # Drivers may end by themselves, then have their grace, and their runs are given back.
          terminationGracePeriodSeconds = exports.drain_s + 30
          containers = [{
            name            = "export-runner"
            image           = exports.image
            imagePullPolicy = "IfNotPresent"
            args            = ["export-runner"]
            env = concat(
              [
                local.own_address,
                { name = "POD_NAME", valueFrom = { fieldRef = { fieldPath = "metadata.name" } } },
                # Where executors find a driver.
                { name = "SPARK_LOCAL_IP", value = "$(POD_IP)" },
                { name = "SPARK_LOCAL_HOSTNAME", value = "$(POD_IP)" },
              ],
              [for name, value in local.runner_settings["all"] : { name = name, value = value }],
              [for name, key in { PACKETBOAT_CLIENT_ID = "client-id", PACKETBOAT_CLIENT_SECRET = "client-secret" } : {
                name                                   = name, valueFrom = { secretKeyRef = { name = exports.credential_secret, key = key } }
              }],
            )
            ports = [
              { name = "metrics", containerPort = local.ports.runner },
              { name = "driver", containerPort = local.ports.driver },
              { name = "blocks", containerPort = local.ports.block_manager },
            ]
            livenessProbe   = { httpGet = { path = "/metrics", port = "metrics" }, initialDelaySeconds = 10, periodSeconds = 30, timeoutSeconds = 10, failureThreshold = 6 }
            resources       = { requests = { cpu = exports.cpu, memory = exports.memory }, limits = { memory = exports.memory } }
            securityContext = local.container_security
            volumeMounts = [
              { name = "lakes", mountPath = "/etc/packetboat/lakes", readOnly = true },
              { name = "state", mountPath = "/var/lib/packetboat" },
              local.scratch.mount,
            ]
          }]
          volumes = [
            { name = "lakes", secret = { secretName = local.lakes_secret, defaultMode = 288 } },
            { name = "state", emptyDir = { sizeLimit = exports.scratch } },
            local.scratch.volume,
          ]
        })
      }
    }, { for name, replicas in { replicas = exports.replicas } : name => replicas if !local.runners_grow })
  }]
}
