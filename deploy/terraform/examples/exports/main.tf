# Topics as tables of a lake: one by the clock, one for all topics of a pattern.

terraform {
  required_version = ">= 1.11"

  required_providers {
    packetboat = {
      source  = "packetboat/packetboat"
      version = ">= 0.2.0"
    }
  }
}

provider "packetboat" {}

module "lake" {
  source = "../../modules/tenant"

  labels = { team = "analysts" }

  topics = {
    # Kept for a week whoever has read them, so that a run that is late finds them.
    lake-clicks = { partitions = 4, retention = { mode = "retain", seconds = 604800 } }
    lake-orders = { partitions = 2, retention = { mode = "retain", seconds = 604800 } }
  }

  exports = {
    lake-orders = {
      topic   = "lake-orders"
      cron    = "*/15 * * * *"
      columns = { total = "decimal(12,2)" }
    }
    lake-everything = {
      topic        = "lake-*"
      body         = "raw"
      partition_by = "hour"
      cron         = "@daily"
    }
  }
}

output "topics" {
  value = module.lake.topics
}
