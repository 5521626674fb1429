locals {
  # By subscription: where its dead letters go.
  dead_letter_topics = {
    for name, subscription in var.subscriptions :
    name => coalesce(subscription.dead_letters.topic, "${name}-dead-letters")
    if subscription.dead_letters != null
  }
  # Those that nobody else makes, with how long letters stay; subscriptions may share one.
  made_for_dead_letters = {
    for topic, names in transpose({ for name, topic in local.dead_letter_topics : name => [topic] }) :
    topic => max([for name in names : var.subscriptions[name].dead_letters.retention_seconds]...)
    if !contains(setunion(keys(var.topics), var.existing_topics), topic)
  }
  # Names as the resources have them, so that who names a topic waits for it.
  topic_names = merge(
    { for name in var.existing_topics : name => name },
    { for name, topic in packetboat_topic.this : name => topic.name },
    { for name, topic in packetboat_topic.dead_letters : name => topic.name },
  )
}

resource "packetboat_schema" "this" {
  for_each = var.schemas

  tenant        = local.tenant
  name          = each.key
  type          = each.value.type
  definition    = each.value.definition
  compatibility = each.value.compatibility
}

resource "packetboat_topic" "this" {
  for_each = var.topics

  tenant               = local.tenant
  name                 = each.key
  partitions           = each.value.partitions
  priorities           = each.value.priorities
  retention            = each.value.retention
  dedup_window_seconds = each.value.dedup_window_seconds
  ack_history          = each.value.ack_history
  schema               = each.value.schema == null ? null : packetboat_schema.this[each.value.schema].name
  labels               = merge(var.labels, each.value.labels)
  force_destroy        = coalesce(each.value.force_destroy, var.force_destroy)
}

resource "packetboat_topic" "dead_letters" {
  for_each = local.made_for_dead_letters

  tenant = local.tenant
  name   = each.key
  # Letters stay for their time, whoever has read them.
  retention     = { mode = "retain", seconds = each.value }
  labels        = var.labels
  force_destroy = var.force_destroy
}
