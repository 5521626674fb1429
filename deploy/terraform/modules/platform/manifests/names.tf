# What several files need: names, labels, ports, and what every pod has.

locals {
  labels = {
    "app.kubernetes.io/name"       = "packetboat"
    "app.kubernetes.io/instance"   = var.name
    "app.kubernetes.io/managed-by" = "terraform"
  }
  # Of selectors: these never change.
  select = { for name in ["name", "instance"] : "app.kubernetes.io/${name}" => local.labels["app.kubernetes.io/${name}"] }

  component = "app.kubernetes.io/component"
  node_of   = "packetboat.io/store-node"

  ports = {
    http          = 8080
    metrics       = 9103
    store         = 9001
    store_metrics = 9101
    link          = 9002
    runner        = 9102
    front_metrics = 8405
    https         = 8443
    driver        = 7078
    block_manager = 7094
  }

  domain     = "${var.namespace}.svc.${var.cluster_domain}"
  secret     = coalesce(var.secrets.existing, "${var.name}-secrets")
  components = { for c in ["store", "publish", "subscribe", "gateway", "scheduler", "migrate", "front", "export-runner", "backup"] : c => "${var.name}-${c}" }

  images = { for component in keys(local.components) : component => lookup(var.images, component, var.image) }

  # The Pod Security level `restricted`, and nothing to write on but what is mounted.
  pod_security = {
    runAsNonRoot        = true
    runAsUser           = var.run_as
    runAsGroup          = var.run_as
    fsGroup             = var.run_as
    fsGroupChangePolicy = "OnRootMismatch"
    seccompProfile      = { type = "RuntimeDefault" }
  }
  container_security = {
    allowPrivilegeEscalation = false
    readOnlyRootFilesystem   = true
    capabilities             = { drop = ["ALL"] }
  }
  # What every pod begins with. Here and elsewhere a list or map is left out where it would be empty:
  # the API does not keep it, and Terraform's provider takes that for a failure.
  pod = merge(
    { automountServiceAccountToken = false, enableServiceLinks = false, securityContext = local.pod_security },
    { for name, secrets in { imagePullSecrets = [for name in var.image_pull_secrets : { name = name }] } : name => secrets if length(secrets) > 0 },
  )
  scratch = { volume = { name = "tmp", emptyDir = {} }, mount = { name = "tmp", mountPath = "/tmp" } }

  own_address = { name = "POD_IP", valueFrom = { fieldRef = { fieldPath = "status.podIP" } } }
}
