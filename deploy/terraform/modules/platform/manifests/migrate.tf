# The schema of Postgres, brought up to this version by a Job of its own. Servers that come before it
# has ended say so and exit, and Kubernetes starts them again.

locals {
  migrate_key = var.secrets.existing == null && var.postgres.migrate_url != null ? "database-url-migrate" : var.secrets.migrate_key
  # A Job is never changed: another image is another Job.
  migrate_name   = "${local.components.migrate}-${substr(sha256(join(" ", concat([local.images.migrate], local.restores[*].name))), 0, 8)}"
  migrate_labels = merge(local.labels, { (local.component) = "migrate" })

  migrate_command = merge(
    { for name, words in { args = ["migrate"] } : name => words if length(local.restores) == 0 },
    { for restore in local.restores : "command" => [
      "sh", "-c", "packetboat restore postgres /var/lib/vault --name ${restore.name} && packetboat migrate",
    ] },
  )

  migrate_objects = [{
    apiVersion = "batch/v1"
    kind       = "Job"
    metadata   = { name = local.migrate_name, namespace = var.namespace, labels = local.migrate_labels }
    spec = {
      backoffLimit          = 10
      activeDeadlineSeconds = 3600
      template = {
        metadata = { labels = local.migrate_labels }
        spec = {
          serviceAccountName           = local.components.migrate
          automountServiceAccountToken = false
          enableServiceLinks           = false
          imagePullSecrets             = local.pull_secrets
          securityContext              = local.pod_security
          restartPolicy                = "OnFailure"
          containers = [merge({
            name            = "migrate"
            image           = local.images.migrate
            imagePullPolicy = "IfNotPresent"
            env = [{
              name      = "PACKETBOAT_DATABASE_URL"
              valueFrom = { secretKeyRef = { name = local.secret, key = local.migrate_key } }
            }]
            resources       = { requests = { cpu = "100m", memory = "256Mi" }, limits = { memory = "512Mi" } }
            securityContext = local.container_security
            volumeMounts    = concat([local.scratch.mount], local.restore_mounts)
          }, local.migrate_command)]
          volumes = concat([local.scratch.volume], local.restore_volumes)
        }
      }
    }
  }]
}
