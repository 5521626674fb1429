# The servers: a Deployment, a Service and a disruption budget for each role.

locals {
  roles = {
    publish   = merge(var.publish, { secrets = ["PACKETBOAT_STORE_SECRET", "PACKETBOAT_DATABASE_URL"] })
    subscribe = merge(var.subscribe, { secrets = ["PACKETBOAT_STORE_SECRET", "PACKETBOAT_DATABASE_URL", "PACKETBOAT_ACK_SECRET", "PACKETBOAT_SEAL_KEYS"] })
    gateway   = merge(var.gateway, { secrets = ["PACKETBOAT_STORE_SECRET", "PACKETBOAT_DATABASE_URL", "PACKETBOAT_SEAL_KEYS"] })
    scheduler = merge(var.scheduler, { secrets = ["PACKETBOAT_STORE_SECRET", "PACKETBOAT_DATABASE_URL"] })
  }
  balanced = ["publish", "subscribe", "gateway"]

  server_settings = { for role, _ in local.roles : role => merge(
    {
      PACKETBOAT_DRAIN_S = tostring(var.drain_s)
      PACKETBOAT_HOST    = "0.0.0.0"
      PACKETBOAT_ISSUER  = var.issuer
      # Longer than a balancer takes to see two bad answers of /readyz.
      PACKETBOAT_LINGER_S     = "3"
      PACKETBOAT_LOG_LEVEL    = var.log_level
      PACKETBOAT_METRICS_HOST = "0.0.0.0"
      PACKETBOAT_METRICS_PORT = tostring(local.ports.metrics)
      PACKETBOAT_PORT         = tostring(local.ports.http)
      PACKETBOAT_ROLE         = role
      PACKETBOAT_STORE_GROUPS = tostring(var.store.groups)
      PACKETBOAT_STORE_NODES  = local.nodes_list
    },
    { for name, value in {
      PACKETBOAT_EGRESS_PROXY = var.network.egress_proxy
      PACKETBOAT_EXPORT_LAKES = var.exports == null ? null : join(",", local.lake_names)
    } : name => value if value != null },
    { for name, value in {
      PACKETBOAT_PUBLISH_DRAIN_S = tostring(var.drain_s)
    } : name => value if role == "publish" },
    { for name, value in {
      PACKETBOAT_SUBSCRIBE_DRAIN_S        = tostring(var.drain_s)
      PACKETBOAT_SUBSCRIBE_LINK_ADVERTISE = "$(POD_IP)"
      PACKETBOAT_SUBSCRIBE_LINK_HOST      = "0.0.0.0"
      PACKETBOAT_SUBSCRIBE_LINK_PORT      = tostring(local.ports.link)
    } : name => value if role == "subscribe" },
  ) }

  server_env = { for role, of in local.roles : role => concat(
    [for each in role == "subscribe" ? [local.own_address] : [] : each],
    [for name, value in merge(var.settings, of.settings, local.server_settings[role]) : { name = name, value = value }],
    [for name in of.secrets : local.secret_env[name]],
    local.peer_env,
  ) }

  # Settings that somebody gave and that the module has to make itself.
  settings_twice = setintersection(
    concat(keys(local.store_settings), keys(local.secret_keys), flatten([for role, settings in local.server_settings : keys(settings)])),
    concat(keys(var.settings), keys(var.store.settings), flatten([for role, of in local.roles : keys(of.settings)])),
  )

  server_select = { for role, _ in local.roles : role => merge(local.select, { (local.component) = role }) }
  server_labels = { for role, _ in local.roles : role => merge(local.labels, { (local.component) = role }) }

  # KEDA and the HorizontalPodAutoscaler set replicas where they scale.
  grows = { for role, of in local.roles : role => of.max_replicas > of.replicas if var.autoscaling.enabled && role != "scheduler" }

  deployments = [for role, of in local.roles : {
    apiVersion = "apps/v1"
    kind       = "Deployment"
    metadata   = { name = local.components[role], namespace = var.namespace, labels = local.server_labels[role] }
    spec = merge({
      revisionHistoryLimit = 5
      selector             = { matchLabels = local.server_select[role] }
      strategy             = { type = "RollingUpdate", rollingUpdate = { maxSurge = 1, maxUnavailable = 0 } }
      minReadySeconds      = 5
      template = {
        metadata = {
          labels      = local.server_labels[role]
          annotations = { "packetboat.io/secrets" = local.secret_revision }
        }
        spec = merge(local.pod, {
          serviceAccountName            = local.components[role]
          terminationGracePeriodSeconds = var.drain_s + 10
          topologySpreadConstraints = [for key in ["kubernetes.io/hostname", var.store.zone_label] : {
            topologyKey       = key
            maxSkew           = 1
            whenUnsatisfiable = "ScheduleAnyway"
            labelSelector     = { matchLabels = local.server_select[role] }
          }]
          containers = [{
            name            = role
            image           = local.images[role]
            imagePullPolicy = "IfNotPresent"
            args            = ["serve"]
            env             = local.server_env[role]
            ports = concat(
              [{ name = "http", containerPort = local.ports.http }, { name = "metrics", containerPort = local.ports.metrics }],
              [for port in role == "subscribe" ? [local.ports.link] : [] : { name = "link", containerPort = port }],
            )
            startupProbe    = { httpGet = { path = "/healthz", port = "http" }, periodSeconds = 2, timeoutSeconds = 5, failureThreshold = 60 }
            livenessProbe   = { httpGet = { path = "/healthz", port = "http" }, periodSeconds = 10, timeoutSeconds = 5, failureThreshold = 6 }
            readinessProbe  = { httpGet = { path = "/readyz", port = "http" }, periodSeconds = 2, timeoutSeconds = 2, failureThreshold = 2 }
            resources       = { requests = { cpu = of.cpu, memory = of.memory }, limits = { memory = of.memory } }
            securityContext = local.container_security
            volumeMounts    = concat([local.scratch.mount], local.peer_mounts)
          }]
          volumes = concat([local.scratch.volume], local.peer_volumes["servers"])
        })
      }
      }, { for name, replicas in { replicas = of.replicas } : name => replicas if !try(local.grows[role], false)
    })
  }]

  server_services = [for role in local.balanced : {
    apiVersion = "v1"
    kind       = "Service"
    metadata   = { name = local.components[role], namespace = var.namespace, labels = local.server_labels[role] }
    spec = {
      clusterIP = "None"
      # The balancer asks each for itself whether it is ready, and lets what runs there end.
      publishNotReadyAddresses = true
      selector                 = local.server_select[role]
      ports                    = [{ name = "http", port = local.ports.http, targetPort = "http" }]
    }
  }]

  server_budgets = [for role, of in local.roles : {
    apiVersion = "policy/v1"
    kind       = "PodDisruptionBudget"
    metadata   = { name = local.components[role], namespace = var.namespace, labels = local.server_labels[role] }
    spec       = { maxUnavailable = 1, selector = { matchLabels = local.server_select[role] } }
  }]
}
