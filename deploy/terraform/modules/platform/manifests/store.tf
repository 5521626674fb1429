# Store nodes: a StatefulSet for each, for a node's id is its own and its disk's for good, and its
# zone is said where nodes are listed. They are restarted one after the other by roll-store.sh and
# by nobody else: two at a time would be a majority.

locals {
  store_hosts = { for id, node in var.store.nodes : id => "${local.components.store}-${id}-0.${local.components.store}.${local.domain}" }
  first_nodes = { for id, node in var.store.nodes : id => node if !node.join }
  present     = { for id, node in var.store.nodes : id => node if !node.removed }
  # The first voters, as PACKETBOAT_STORE_NODES says at every node, for good. Servers are told of
  # those that are there now.
  store_entries = { for id, node in var.store.nodes : id => join("", [
    "${id}=${local.store_hosts[id]}:${local.ports.store}",
    node.zone != "" ? "@${node.zone}" : "",
  ]) }
  # Keys of a map are in the order of their text: here by number.
  store_order = [for padded in sort([for id in keys(var.store.nodes) : format("%05d", tonumber(id))]) : tostring(tonumber(padded))]
  first_list  = join(",", [for id in local.store_order : local.store_entries[id] if contains(keys(local.first_nodes), id)])
  nodes_list  = join(",", [for id in local.store_order : local.store_entries[id] if contains(keys(local.present), id)])

  store_settings = {
    PACKETBOAT_LOG_LEVEL                = var.log_level
    PACKETBOAT_STORE_DIR                = "/var/lib/packetboat/node"
    PACKETBOAT_STORE_DISK_RESERVE_BYTES = tostring(var.store.disk_reserve_bytes)
    PACKETBOAT_STORE_GROUPS             = tostring(var.store.groups)
    PACKETBOAT_STORE_LISTEN             = "0.0.0.0:${local.ports.store}"
    PACKETBOAT_STORE_METRICS_HOST       = "0.0.0.0"
    PACKETBOAT_STORE_METRICS_PORT       = tostring(local.ports.store_metrics)
    PACKETBOAT_STORE_NODES              = local.first_list
  }

  store_env = { for id, node in local.present : id => concat(
    [for name, value in merge(
      var.store.settings,
      local.store_settings,
      { PACKETBOAT_STORE_NODE_ID = id },
      { for name, value in { PACKETBOAT_STORE_JOIN = "1" } : name => value if node.join },
    ) : { name = name, value = value }],
    [local.secret_env.PACKETBOAT_CLUSTER_UID, local.secret_env.PACKETBOAT_STORE_SECRET],
    local.peer_env,
  ) }

  store_select = merge(local.select, { (local.component) = "store" })

  store_sets = [for id, node in local.present : {
    apiVersion = "apps/v1"
    kind       = "StatefulSet"
    metadata = {
      name      = "${local.components.store}-${id}"
      namespace = var.namespace
      labels    = merge(local.labels, { (local.component) = "store", (local.node_of) = id })
    }
    spec = {
      serviceName                          = local.components.store
      replicas                             = 1
      podManagementPolicy                  = "Parallel"
      updateStrategy                       = { type = "OnDelete" }
      persistentVolumeClaimRetentionPolicy = { whenDeleted = "Retain", whenScaled = "Retain" }
      selector                             = { matchLabels = merge(local.store_select, { (local.node_of) = id }) }
      template = {
        metadata = {
          labels      = merge(local.labels, { (local.component) = "store", (local.node_of) = id })
          annotations = { "packetboat.io/secrets" = local.secret_revision }
        }
        spec = merge(local.pod, {
          serviceAccountName            = local.components.store
          terminationGracePeriodSeconds = var.store.drain_s + 60
          topologySpreadConstraints = [
            for key, unsatisfiable in {
              "kubernetes.io/hostname" = "DoNotSchedule"
              (var.store.zone_label)   = "ScheduleAnyway"
              } : {
              topologyKey       = key
              maxSkew           = 1
              whenUnsatisfiable = unsatisfiable
              labelSelector     = { matchLabels = local.store_select }
            }
          ]
          containers = [{
            name            = "store-node"
            image           = local.images.store
            imagePullPolicy = "IfNotPresent"
            args            = ["store-node"]
            env             = local.store_env[id]
            ports = [
              { name = "store", containerPort = local.ports.store },
              { name = "metrics", containerPort = local.ports.store_metrics },
            ]
            # Its log is read before it answers: as long as that takes.
            startupProbe   = { httpGet = { path = "/healthz", port = "metrics" }, periodSeconds = 5, timeoutSeconds = 6, failureThreshold = 720 }
            livenessProbe  = { httpGet = { path = "/healthz", port = "metrics" }, periodSeconds = 20, timeoutSeconds = 6, failureThreshold = 6 }
            readinessProbe = { httpGet = { path = "/readyz", port = "metrics" }, periodSeconds = 3, timeoutSeconds = 6, failureThreshold = 2 }
            # Leaders go first, and only once the other nodes have caught up.
            lifecycle = { preStop = { exec = { command = [
              "sh", "-c", "timeout ${var.store.drain_s} sh -c 'until packetboat store drain \"$PACKETBOAT_STORE_NODE_ID\"; do sleep 2; done'",
            ] } } }
            resources       = { requests = { cpu = var.store.cpu, memory = var.store.memory }, limits = { memory = var.store.memory } }
            securityContext = local.container_security
            volumeMounts = concat(
              [{ name = "data", mountPath = "/var/lib/packetboat" }, local.scratch.mount],
              local.peer_mounts,
            )
          }]
          volumes = concat([local.scratch.volume], local.restore_volumes, local.peer_volumes["store-${id}"])
          }, { for name, value in {
            nodeSelector = merge(
              var.store.node_selector,
              { for label, zone in { (var.store.zone_label) = node.zone } : label => zone if zone != "" },
            )
            tolerations = var.store.tolerations
            initContainers = [for restore in local.restores : {
              name            = "restore"
              image           = local.images.store
              imagePullPolicy = "IfNotPresent"
              command = ["sh", "-c", join(" ", [
                "test -e /var/lib/packetboat/restored ||",
                "{ packetboat restore node /var/lib/vault --name ${restore.name} && touch /var/lib/packetboat/restored; }",
              ])]
              env             = local.store_env[id]
              resources       = { requests = { cpu = var.store.cpu, memory = var.store.memory }, limits = { memory = var.store.memory } }
              securityContext = local.container_security
              volumeMounts = concat(
                [{ name = "data", mountPath = "/var/lib/packetboat" }, local.scratch.mount],
                local.restore_mounts,
                local.peer_mounts,
              )
            }]
          } : name => value if length(value) > 0 },
        { for name, class in { priorityClassName = var.store.priority_class } : name => class if class != null })
      }
      volumeClaimTemplates = [{
        apiVersion = "v1"
        kind       = "PersistentVolumeClaim"
        metadata   = { name = "data", labels = local.store_select }
        spec = merge({
          accessModes = ["ReadWriteOnce"]
          resources   = { requests = { storage = coalesce(node.storage, var.store.storage) } }
          }, { for name, class in { storageClassName = try(coalesce(node.storage_class, var.store.storage_class), null) } : name => class if class != null
        })
      }]
    }
  }]

  store_objects = concat([
    {
      apiVersion = "v1"
      kind       = "Service"
      metadata   = { name = local.components.store, namespace = var.namespace, labels = merge(local.labels, { (local.component) = "store" }) }
      spec = {
        clusterIP = "None"
        # Nodes find each other while they start.
        publishNotReadyAddresses = true
        selector                 = local.store_select
        ports                    = [{ name = "store", port = local.ports.store, targetPort = "store" }]
      }
    },
    {
      apiVersion = "policy/v1"
      kind       = "PodDisruptionBudget"
      metadata   = { name = local.components.store, namespace = var.namespace, labels = merge(local.labels, { (local.component) = "store" }) }
      spec       = { maxUnavailable = 1, selector = { matchLabels = local.store_select } }
    },
  ], local.store_sets)
}
