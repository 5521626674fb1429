# The objects of ./manifests, applied: what others need first, then the schema, then what runs.
terraform {
  required_version = ">= 1.9"
  required_providers {
    kubernetes = {
      source  = "hashicorp/kubernetes"
      version = ">= 2.38, < 4.0"
    }
  }
}

module "manifests" {
  source = "./manifests"

  name               = var.name
  namespace          = var.namespace
  create_namespace   = var.create_namespace
  cluster_domain     = var.cluster_domain
  image              = var.image
  images             = var.images
  image_pull_secrets = var.image_pull_secrets
  run_as             = var.run_as
  issuer             = var.issuer
  log_level          = var.log_level
  settings           = var.settings
  secrets            = var.secrets
  postgres           = var.postgres
  store              = var.store
  publish            = var.publish
  subscribe          = var.subscribe
  gateway            = var.gateway
  scheduler          = var.scheduler
  drain_s            = var.drain_s
  autoscaling        = var.autoscaling
  front              = var.front
  exports            = var.exports
  backup             = var.backup
  restore            = var.restore
  peer_tls           = var.peer_tls
  network            = var.network
  monitoring         = var.monitoring
}

locals {
  # Where others write beside us, and what the API writes in its own way (1000m is 1): a difference
  # there is none. A change of ours is one.
  others = [
    "metadata.labels",
    "metadata.annotations",
    "spec.template.metadata.labels",
    "spec.template.metadata.annotations",
    "spec.template.spec.containers[0].resources",
    "spec.template.spec.initContainers[0].resources",
    "spec.template.spec.volumes[1].emptyDir", # of runners of exports
    "spec.volumeClaimTemplates[0].spec.resources",
    "spec.jobTemplate.spec.template.spec.containers[0].resources",
  ]
}

# With it all claims would go, and all messages.
resource "kubernetes_manifest" "namespace" {
  for_each = module.manifests.namespace
  manifest = each.value

  field_manager {
    force_conflicts = true
  }
  lifecycle {
    prevent_destroy = true
  }
}

resource "kubernetes_manifest" "first" {
  for_each   = module.manifests.first
  manifest   = each.value
  depends_on = [kubernetes_manifest.namespace]

  field_manager {
    force_conflicts = true
  }
}

# As a resource of their own kind: plans of any other would print what is in them.
resource "kubernetes_secret_v1" "secrets" {
  for_each   = toset(module.manifests.secret_names)
  type       = module.manifests.secrets[each.key].type
  data       = { for key, value in module.manifests.secrets[each.key].data : key => base64decode(value) }
  depends_on = [kubernetes_manifest.namespace]

  metadata {
    name      = module.manifests.secrets[each.key].metadata.name
    namespace = module.manifests.secrets[each.key].metadata.namespace
    labels    = module.manifests.secrets[each.key].metadata.labels
  }
}

# Waited for: servers of a new version find the schema that they need.
resource "kubernetes_manifest" "migration" {
  for_each        = module.manifests.migration
  manifest        = each.value
  computed_fields = local.others
  depends_on      = [kubernetes_manifest.first, kubernetes_secret_v1.secrets]

  wait {
    condition {
      type   = "Complete"
      status = "True"
    }
  }
  timeouts {
    create = "60m"
  }
}

resource "kubernetes_manifest" "workloads" {
  for_each        = module.manifests.workloads
  manifest        = each.value
  computed_fields = local.others
  depends_on      = [kubernetes_manifest.migration]

  # What is ours is taken back from whoever changed it. But the provider sends what it read of the
  # other fields, too: where an autoscaler has set another count since, it must not win.
  field_manager {
    force_conflicts = !contains(module.manifests.scaled, each.key)
  }
}

output "url" {
  description = "Where clients in the cluster reach the platform."
  value       = module.manifests.url
}
