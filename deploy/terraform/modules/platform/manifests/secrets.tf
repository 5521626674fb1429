# Secrets that are generated once. `uuid` is of the system's random source, 122 bits each time; what
# it gave at first is kept in the state.

resource "terraform_data" "cluster_uid" {
  for_each = var.secrets.existing == null ? toset([var.secrets.cluster_uid]) : []
  input    = sensitive(md5("${uuid()}${uuid()}"))

  lifecycle {
    ignore_changes = [input]
  }
}

resource "terraform_data" "secret" {
  for_each = var.secrets.existing == null ? toset(flatten([
    for kind in ["store_secret", "ack_secret", "seal_keys"] :
    [for name in var.secrets[kind] : "${kind}/${name}"]
  ])) : []
  input = sensitive(sha256("${uuid()}${uuid()}${uuid()}"))

  lifecycle {
    ignore_changes = [input]
  }
}

locals {
  generated = {
    for kind in ["store_secret", "ack_secret", "seal_keys"] : kind => join(",", [
      for name in var.secrets[kind] : join("", [
        kind == "seal_keys" ? "${name}:" : "",
        try(terraform_data.secret["${kind}/${name}"].output, ""),
      ])
    ])
  }

  # Which keys there are is known before any value is.
  secret_values = merge(
    {
      "cluster-uid"  = try(terraform_data.cluster_uid[var.secrets.cluster_uid].output, "")
      "store-secret" = local.generated.store_secret
      "ack-secret"   = local.generated.ack_secret
      "seal-keys"    = local.generated.seal_keys
      "database-url" = var.postgres.url
    },
    { for key, url in { "database-url-migrate" = var.postgres.migrate_url } : key => url if nonsensitive(url != null) },
  )

  secret_objects = [for made in var.secrets.existing == null ? [1] : [] : {
    apiVersion = "v1"
    kind       = "Secret"
    metadata   = { name = local.secret, namespace = var.namespace, labels = local.labels }
    type       = "Opaque"
    data       = { for key, value in local.secret_values : key => base64encode(value) }
  }]

  # Pods are made anew when it changes.
  secret_revision = nonsensitive(sha256(jsonencode(var.secrets.existing == null ? values(local.secret_values) : [var.secrets.revision])))

  secret_keys = {
    PACKETBOAT_CLUSTER_UID  = "cluster-uid"
    PACKETBOAT_STORE_SECRET = "store-secret"
    PACKETBOAT_ACK_SECRET   = "ack-secret"
    PACKETBOAT_SEAL_KEYS    = "seal-keys"
    PACKETBOAT_DATABASE_URL = "database-url"
  }
  secret_env = { for name, key in local.secret_keys : name => {
    name      = name
    valueFrom = { secretKeyRef = { name = local.secret, key = key } }
  } }
}
