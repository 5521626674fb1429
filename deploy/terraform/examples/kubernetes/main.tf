# Packetboat on Kubernetes, in three zones, as YAML: no provider is needed.
#
#   terraform apply
#   terraform output -raw yaml | kubectl apply --server-side -f -
#
# To have Terraform apply it, see docs/operations/kubernetes.md.
terraform {
  required_version = ">= 1.9"
}

variable "image" {
  description = "The server's image, as `make image` makes it, in your registry."
  type        = string
}

variable "issuer" {
  description = "The public base URL."
  type        = string
}

variable "database_url" {
  description = "postgresql://user:password@host:port/database"
  type        = string
  sensitive   = true
}

variable "postgres_cidr" {
  description = "The network that Postgres is in."
  type        = string
}

variable "zones" {
  description = "Values of the node label topology.kubernetes.io/zone; a store node in each."
  type        = list(string)

  validation {
    condition     = length(distinct(var.zones)) >= 3
    error_message = "Three zones or more: of two, one has the majority."
  }
}

variable "tls_secret" {
  description = "A Secret with tls.crt and tls.key of the public name."
  type        = string
}

module "platform" {
  source = "../../modules/platform/manifests"

  image  = var.image
  issuer = var.issuer
  postgres = {
    url   = var.database_url
    cidrs = [var.postgres_cidr]
  }
  store = {
    nodes   = { for index, zone in var.zones : tostring(index + 1) => { zone = zone } }
    storage = "200Gi"
  }
  front     = { tls_secret = var.tls_secret }
  publish   = { max_replicas = 6 }
  subscribe = { max_replicas = 6 }
  settings = {
    PACKETBOAT_QUOTA_TOPICS = "200"
  }
}

output "yaml" {
  value     = module.platform.yaml
  sensitive = true
}
