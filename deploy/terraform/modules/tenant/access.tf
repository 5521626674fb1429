locals {
  # A policy for each client and role, so that a grant that is taken away is one policy less.
  grants = merge([
    for client, settings in var.clients : {
      for role, resources in settings.grants : "${client}-${role}" => {
        role = role, client = client, resources = resources, labels = settings.labels
      }
    }
  ]...)
}

resource "packetboat_client" "this" {
  for_each = var.clients

  tenant             = local.tenant
  name               = each.key
  display_name       = each.value.display_name
  state              = each.value.state
  labels             = merge(var.labels, each.value.labels)
  secret_version     = each.value.secret_version
  old_secret_seconds = each.value.old_secret_seconds
}

resource "packetboat_policy" "of_client" {
  for_each = local.grants

  tenant    = local.tenant
  name      = each.key
  role      = each.value.role
  members   = ["client:${packetboat_client.this[each.value.client].name}"]
  resources = each.value.resources
  labels    = merge(var.labels, each.value.labels)
}

resource "packetboat_policy" "this" {
  for_each = var.policies

  tenant    = local.tenant
  name      = each.key
  role      = each.value.role
  members   = each.value.members
  resources = each.value.resources
  labels    = merge(var.labels, each.value.labels)
}

resource "packetboat_api_key" "this" {
  for_each = var.api_keys

  tenant             = local.tenant
  name               = each.key
  scopes             = each.value.scopes
  state              = each.value.state
  expires_at         = each.value.expires_at
  labels             = merge(var.labels, each.value.labels)
  secret_version     = each.value.secret_version
  old_secret_seconds = each.value.old_secret_seconds
}
