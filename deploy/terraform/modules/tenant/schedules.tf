resource "packetboat_schedule" "this" {
  for_each = var.schedules

  tenant      = local.tenant
  name        = each.key
  topic       = local.topic_names[each.value.topic]
  cron        = each.value.cron
  message     = each.value.message
  time_zone   = each.value.time_zone
  missed_runs = each.value.missed_runs
  paused      = each.value.paused
  labels      = merge(var.labels, each.value.labels)
}
