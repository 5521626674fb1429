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

variable "api_key" {
  description = "What the endpoint wants in the header `X-Api-Key`."
  type        = string
  default     = "change-me"
  sensitive   = true
}

variable "force_destroy" {
  description = "Whether messages that are not acked may go with what is destroyed; apply it first."
  type        = bool
  default     = false
}

module "hooks" {
  source = "../../modules/tenant"

  labels        = { team = "hooks" }
  force_destroy = var.force_destroy

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
    hooks-erp = { X-Api-Key = var.api_key }
  }
}

output "subscriptions" {
  value = module.hooks.subscriptions
}

output "signing_secrets" {
  value     = module.hooks.signing_secrets
  sensitive = true
}
