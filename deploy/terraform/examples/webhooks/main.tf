# Messages that come to a web server: signed, with a header of its own, and with a topic that is told
# when the endpoint is disabled.

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

variable "endpoint" {
  description = "Where the requests go: https, to a public address, unless the installation allows more."
  type        = string
  default     = "https://hooks.example.com/orders"
}

variable "authorization" {
  description = "The header `Authorization` of each request."
  type        = string
  default     = "Bearer change-me"
  sensitive   = true
}

module "hooks" {
  source = "../../modules/tenant"

  labels = { team = "hooks" }

  topics = {
    hooks-orders = { partitions = 2 }
    hooks-events = { partitions = 1 }
  }

  subscriptions = {
    hooks-erp = {
      topic = "hooks-orders"
      push = {
        url             = var.endpoint
        format          = "cloudevents_structured"
        signing         = ["v1", "v1a"]
        oidc            = { audience = "erp" }
        timeout_seconds = 10
        max_concurrency = 20
        events_topic    = "hooks-events"
      }
      retry        = { min_backoff_seconds = 5, max_backoff_seconds = 3600, max_attempts = 50 }
      dead_letters = {}
    }
    hooks-on-call = { topic = "hooks-events" }
  }

  push_headers = {
    hooks-erp = { Authorization = var.authorization }
  }
}

output "subscriptions" {
  value = module.hooks.subscriptions
}
