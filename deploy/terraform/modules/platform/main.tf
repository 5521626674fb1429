# The objects of ./manifests, applied: what others need first, then the schema, then what runs.
terraform {
  required_version = ">= 1.9"
  required_providers {
    kubernetes = {
      source  = "hashicorp/kubernetes"
      version = "~> 2.35"
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

resource "kubernetes_manifest" "namespace" {
  for_each = module.manifests.namespace
  manifest = each.value
}

resource "kubernetes_manifest" "first" {
  for_each   = module.manifests.first
  manifest   = each.value
  depends_on = [kubernetes_manifest.namespace]
}

resource "kubernetes_manifest" "secrets" {
  for_each   = toset(module.manifests.secret_names)
  manifest   = module.manifests.secrets[each.key]
  depends_on = [kubernetes_manifest.namespace]
}

# Waited for: servers of a new version find the schema that they need.
resource "kubernetes_manifest" "migration" {
  for_each   = module.manifests.migration
  manifest   = each.value
  depends_on = [kubernetes_manifest.first, kubernetes_manifest.secrets]

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
  for_each   = module.manifests.workloads
  manifest   = each.value
  depends_on = [kubernetes_manifest.migration]
}

output "url" {
  description = "Where clients in the cluster reach the platform."
  value       = module.manifests.url
}
