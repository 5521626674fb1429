# One team in the tenant that the credential is of: what `make terraform-demo` applies.
#
#     export PACKETBOAT_URL=… PACKETBOAT_TOKEN=…
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

module "shop" {
  source = "../../modules/tenant"

  labels = { team = "shop", made_by = "terraform" }

  schemas = {
    shop-order = {
      definition = jsonencode({
        type     = "object"
        required = ["customer", "total"]
        properties = {
          customer = { type = "string" }
          total    = { type = "number", minimum = 0 }
        }
      })
    }
  }

  topics = {
    shop-orders = {
      partitions = 2
      schema     = "shop-order"
      retention  = { seconds = 86400 }
    }
    shop-nightly = { partitions = 1 }
  }

  subscriptions = {
    # Acked within a minute; what fails five times goes to `shop-billing-dead-letters`.
    shop-billing = {
      topic                = "shop-orders"
      ack_deadline_seconds = 60
      ordered              = true
      retry                = { min_backoff_seconds = 2, max_backoff_seconds = 300 }
      dead_letters         = {}
    }
    # Only orders worth a look.
    shop-fraud = {
      topic  = "shop-orders"
      filter = "data.total > 1000.0"
    }
    shop-reports = { topic = "shop-nightly" }
  }

  schedules = {
    shop-close-of-day = {
      topic     = "shop-nightly"
      cron      = "0 2 * * *"
      time_zone = "Europe/Berlin"
      message   = { data = jsonencode({ report = "sales" }), content_type = "application/json" }
    }
  }

  clients = {
    shop-checkout = { grants = { publisher = ["topics/shop-orders"] } }
    shop-billing  = { grants = { subscriber = ["subscriptions/shop-billing"] } }
  }

  api_keys = {
    shop-dashboard = { scopes = ["read"] }
  }
}

output "topics" {
  value = module.shop.topics
}

output "subscriptions" {
  value = module.shop.subscriptions
}

output "clients" {
  value     = module.shop.clients
  sensitive = true
}
