# The schema of Postgres, brought up to this version by a Job of its own. Servers that come before it
# has ended say so and exit, and Kubernetes starts them again.

locals {
  migrate_key    = var.secrets.existing == null && nonsensitive(var.postgres.migrate_url != null) ? "database-url-migrate" : var.secrets.migrate_key
  migrate_labels = merge(local.labels, { (local.component) = "migrate" })

  migrate_command = merge(
    { for name, words in { args = ["migrate"] } : name => words if length(local.restores) == 0 },
    { for restore in local.restores : "command" => [
      "sh", "-c", "packetboat restore postgres /var/lib/vault --name ${restore.name} && packetboat migrate",
    ] },
  )

  migrate_pod = merge(local.pod, {
    serviceAccountName = local.components.migrate
    restartPolicy      = "OnFailure"
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
  })

  migrate_objects = [{
    apiVersion = "batch/v1"
    kind       = "Job"
    metadata = {
      # The pod of a Job cannot be changed: another pod is another Job.
      name      = "${local.components.migrate}-${substr(sha256(jsonencode(local.migrate_pod)), 0, 8)}"
      namespace = var.namespace
      labels    = local.migrate_labels
    }
    spec = {
      backoffLimit          = 10
      activeDeadlineSeconds = 3600
      template              = { metadata = { labels = local.migrate_labels }, spec = local.migrate_pod }
    }
  }]
}
