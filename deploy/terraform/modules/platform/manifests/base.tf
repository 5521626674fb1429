# The namespace, and an account without any permission for each component.

locals {
  accounts = concat(
    ["store", "publish", "subscribe", "gateway", "scheduler", "migrate", "front"],
    var.exports == null ? [] : ["export-runner"],
    var.backup == null ? [] : ["backup"],
  )

  namespace_objects = [for name in var.create_namespace ? [var.namespace] : [] : {
    apiVersion = "v1"
    kind       = "Namespace"
    metadata = { name = name, labels = merge(local.labels, {
      for kind in ["enforce", "audit", "warn"] : "pod-security.kubernetes.io/${kind}" => "restricted"
    }) }
  }]

  account_objects = [for account in local.accounts : {
    apiVersion                   = "v1"
    kind                         = "ServiceAccount"
    metadata                     = { name = local.components[account], namespace = var.namespace, labels = local.labels }
    automountServiceAccountToken = false
  }]
}
