# Two tenants, made and limited by an operator; neither sees what is the other's.
#
#     export PACKETBOAT_URL=… PACKETBOAT_CLIENT_ID=… PACKETBOAT_CLIENT_SECRET=…   # an operator's
#     terraform init && terraform apply

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

module "harbour" {
  source = "../../modules/tenant"

  tenant = { name = "team-harbour", display_name = "Harbour authority", labels = { plan = "small" } }
  quota  = { topics = 20, subscriptions = 50, stored_bytes = 10000000000 }

  topics        = { arrivals = { partitions = 2 } }
  subscriptions = { pilots = { topic = "arrivals", dead_letters = {} } }
  clients = {
    radar  = { grants = { publisher = ["topics/arrivals"] } }
    pilots = { grants = { subscriber = ["subscriptions/pilots"] } }
  }
}

module "railway" {
  source = "../../modules/tenant"

  tenant = { name = "team-railway", display_name = "Railway", labels = { plan = "large" } }
  quota  = { publish_messages_per_second = 5000, weight = 2 }

  # Names that the other team has as well: they share nothing.
  topics        = { arrivals = { partitions = 4 } }
  subscriptions = { boards = { topic = "arrivals", ordered = true } }
  clients       = { radar = { grants = { publisher = ["*"], subscriber = ["*"] } } }
}

output "harbour" {
  value     = module.harbour.clients
  sensitive = true
}

output "railway" {
  value     = module.railway.clients
  sensitive = true
}
