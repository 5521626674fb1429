# An export may name a pattern, so it waits for all topics.
resource "packetboat_export" "this" {
  for_each   = var.exports
  depends_on = [packetboat_topic.this, packetboat_topic.dead_letters]

  tenant               = local.tenant
  name                 = each.key
  topic                = each.value.topic
  start                = each.value.start
  lake                 = each.value.lake
  table                = each.value.table
  format               = each.value.format
  body                 = each.value.body
  partition_by         = each.value.partition_by
  key_buckets          = each.value.key_buckets
  columns              = each.value.columns
  keep_data            = each.value.keep_data
  filter               = each.value.filter
  max_bytes_per_second = each.value.max_bytes_per_second
  maintenance          = each.value.maintenance
  cron                 = each.value.cron
  time_zone            = each.value.time_zone
  missed_runs          = each.value.missed_runs
  maintain_cron        = each.value.maintain_cron
  paused               = each.value.paused
  labels               = merge(var.labels, each.value.labels)
}
