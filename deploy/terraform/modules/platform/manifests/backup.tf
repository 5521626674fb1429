# Backups by cron. What is lost with everything is what came after the last one.

locals {
  backups       = var.backup == null ? [] : [var.backup]
  restores      = var.restore == null ? [] : [var.restore]
  backup_labels = merge(local.labels, { (local.component) = "backup" })

  restore_mounts  = [for restore in local.restores : { name = "vault", mountPath = "/var/lib/vault", readOnly = true }]
  restore_volumes = [for restore in local.restores : { name = "vault", persistentVolumeClaim = { claimName = restore.claim, readOnly = true } }]

  backup_objects = [for backup in local.backups : {
    apiVersion = "batch/v1"
    kind       = "CronJob"
    metadata   = { name = local.components.backup, namespace = var.namespace, labels = local.backup_labels }
    spec = {
      schedule                   = backup.schedule
      concurrencyPolicy          = "Forbid"
      startingDeadlineSeconds    = 600
      successfulJobsHistoryLimit = 1
      failedJobsHistoryLimit     = 3
      jobTemplate = {
        spec = {
          backoffLimit = 3
          template = {
            metadata = { labels = local.backup_labels }
            spec = merge(local.pod, {
              serviceAccountName = local.components.backup
              restartPolicy      = "OnFailure"
              containers = [{
                name            = "backup"
                image           = local.images.backup
                imagePullPolicy = "IfNotPresent"
                args            = ["backup", "take", "/var/lib/vault", "--keep", tostring(backup.keep)]
                env = concat(
                  [for name, value in {
                    PACKETBOAT_LOG_LEVEL    = var.log_level
                    PACKETBOAT_STORE_GROUPS = tostring(var.store.groups)
                    PACKETBOAT_STORE_NODES  = local.nodes_list
                  } : { name = name, value = value }],
                  [for name in ["PACKETBOAT_CLUSTER_UID", "PACKETBOAT_DATABASE_URL", "PACKETBOAT_STORE_SECRET"] : local.secret_env[name]],
                  local.peer_env,
                )
                resources       = { requests = { cpu = "250m", memory = "256Mi" }, limits = { memory = backup.memory } }
                securityContext = local.container_security
                volumeMounts    = concat([{ name = "vault", mountPath = "/var/lib/vault" }, local.scratch.mount], local.peer_mounts)
              }]
              volumes = concat(
                [{ name = "vault", persistentVolumeClaim = { claimName = backup.claim } }, local.scratch.volume],
                local.peer_volumes["servers"],
              )
            })
          }
        }
      }
    }
  }]
}
