locals {
  # In the order in which they are made: what others need first, then the schema, then what runs.
  first = concat(
    local.account_objects,
    local.network_objects,
    local.tls_objects,
  )
  then = concat(
    local.store_objects,
    local.server_services,
    local.server_budgets,
    local.deployments,
    local.front_objects,
    local.runner_objects,
    local.backup_objects,
    local.autoscalers,
    local.scaled_objects,
    local.monitoring_objects,
  )
  hidden = concat(local.secret_objects, local.lakes_objects)
}

output "namespace" {
  description = "The namespace by `Kind/name`, where it is made."
  value       = { for object in local.namespace_objects : "${object.kind}/${object.metadata.name}" => object }
}

output "first" {
  description = "Objects by `Kind/name`: accounts, network policies, certificates."
  value       = { for object in local.first : "${object.kind}/${object.metadata.name}" => object }

  precondition {
    condition     = length(local.lost_exchanges) == 0
    error_message = "deploy/haproxy/haproxy.cfg has changed; front.tf does not find: ${jsonencode(local.lost_exchanges)}"
  }
  precondition {
    condition     = length(local.settings_twice) == 0
    error_message = "The module sets these itself, by its variables: ${join(", ", local.settings_twice)}"
  }
}

output "secrets" {
  description = "Secrets by `Kind/name`."
  value       = { for object in local.hidden : "${object.kind}/${object.metadata.name}" => object }
  sensitive   = true
}

output "secret_names" {
  description = "The keys of `secrets`."
  value       = [for object in local.hidden : "Secret/${nonsensitive(object.metadata.name)}"]
}

output "migration" {
  description = "The Job that brings Postgres up to this version, by `Kind/name`."
  value       = { for object in local.migrate_objects : "${object.kind}/${object.metadata.name}" => object }
}

output "workloads" {
  description = "All else by `Kind/name`: what runs, and what finds and watches it."
  value       = { for object in local.then : "${object.kind}/${object.metadata.name}" => object }
}

output "scaled" {
  description = "The keys of those `workloads` whose replicas an autoscaler sets."
  value       = [for component in concat(local.growing, [for grows in [local.runners_grow] : "export-runner" if grows]) : "Deployment/${local.components[component]}"]
}

output "yaml" {
  description = "All objects, for `terraform output -raw yaml | kubectl apply --server-side -f -`."
  value       = join("---\n", [for object in concat(local.namespace_objects, local.first, local.hidden, local.migrate_objects, local.then) : yamlencode(object)])
  sensitive   = true
}

output "url" {
  description = "Where clients in the cluster reach the platform."
  value       = "http://${local.components.front}.${local.domain}"
}
