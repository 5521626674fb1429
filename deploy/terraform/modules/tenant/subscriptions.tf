locals {
  # What `dead_letters` alone means.
  attempts_before_dead_letter = 5

  retries = {
    for name, subscription in var.subscriptions : name =>
    subscription.retry == null && subscription.dead_letters == null ? null : {
      min_backoff_seconds = try(subscription.retry.min_backoff_seconds, null)
      max_backoff_seconds = try(subscription.retry.max_backoff_seconds, null)
      max_attempts = try(
        coalesce(subscription.retry.max_attempts),
        subscription.dead_letters == null ? null : local.attempts_before_dead_letter,
      )
      on_exhausted = try(subscription.retry.on_exhausted, null)
    }
  }
  pushes = {
    for name, subscription in var.subscriptions : name =>
    subscription.push == null ? null : merge(subscription.push, {
      events_topic = try(local.topic_names[subscription.push.events_topic], subscription.push.events_topic)
      headers      = lookup(var.push_headers, name, null)
    })
  }
}

resource "packetboat_subscription" "this" {
  for_each = var.subscriptions

  tenant               = local.tenant
  name                 = each.key
  topic                = local.topic_names[each.value.topic]
  type                 = each.value.push == null ? "pull" : "push"
  delivery             = each.value.delivery
  ordered              = each.value.ordered
  ack_deadline_seconds = each.value.ack_deadline_seconds
  filter               = each.value.filter
  max_outstanding      = each.value.max_outstanding
  start                = each.value.start
  retry                = local.retries[each.key]
  dead_letter_topic    = try(local.topic_names[local.dead_letter_topics[each.key]], null)
  rate_limit           = each.value.rate_limit
  push                 = local.pushes[each.key]
  labels               = merge(var.labels, each.value.labels)
  force_destroy        = coalesce(each.value.force_destroy, var.force_destroy)
  secret_version       = each.value.secret_version
  old_secret_seconds   = each.value.old_secret_seconds
}
