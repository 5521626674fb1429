locals {
  # Where all the rest is; null: wherever the provider works. Made here, the rest waits for it.
  tenant = one(concat(
    packetboat_tenant.this[*].name,
    [for tenant in var.tenant[*] : tenant.name if !tenant.create],
  ))
}

resource "packetboat_tenant" "this" {
  count = try(var.tenant.create, false) ? 1 : 0

  name           = var.tenant.name
  display_name   = var.tenant.display_name
  state          = var.tenant.state
  labels         = merge(var.labels, var.tenant.labels)
  egress_allowed = var.tenant.egress_allowed
  force_destroy  = var.tenant.force_destroy
}

resource "packetboat_quota" "this" {
  count = var.quota == null ? 0 : 1

  tenant = local.tenant
  weight = var.quota.weight
  limits = { for name, limit in var.quota : name => limit if name != "weight" }
}
