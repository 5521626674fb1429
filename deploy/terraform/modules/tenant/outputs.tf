output "tenant" {
  description = "The tenant that all of it is in; null: that of the provider."
  value       = local.tenant
}

output "clients" {
  description = "The id and the secret of each client, by name."
  sensitive   = true
  value = {
    for name, client in packetboat_client.this :
    name => { client_id = client.client_id, client_secret = client.client_secret }
  }
}

output "api_keys" {
  description = "Each key, by name."
  sensitive   = true
  value       = { for name, key in packetboat_api_key.this : name => key.key }
}

output "topics" {
  description = "Names of all topics, those for dead letters too."
  value = sort(concat(
    [for topic in packetboat_topic.this : topic.name],
    [for topic in packetboat_topic.dead_letters : topic.name],
  ))
}

output "subscriptions" {
  description = "By name: the topic, where dead letters go (null: nowhere), and the endpoint (null: it is pulled)."
  value = {
    for name, subscription in packetboat_subscription.this : name => {
      topic             = subscription.topic
      dead_letter_topic = subscription.dead_letter_topic
      endpoint          = one(var.subscriptions[name].push[*].url)
    }
  }
}

output "signing_secrets" {
  description = "By subscription with an endpoint: what requests are signed with, the newest first, with `kind`, `secret` (of v1) and `public_key` (of v1a)."
  sensitive   = true
  value = {
    for name, subscription in packetboat_subscription.this : name => subscription.signing_secrets
    if var.subscriptions[name].push != null
  }
}
