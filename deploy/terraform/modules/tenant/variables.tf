# What the server limits (lengths, ranges, patterns) the provider checks in the plan; here is only
# what a plan of single resources cannot see: names that must be among the others.

variable "tenant" {
  description = "The tenant to make, or with `create = false` to work in: both need an operator's credential. Null: the tenant that the provider works in. `force_destroy`: destroy it also when it has topics made elsewhere."
  type = object({
    name           = string
    create         = optional(bool, true)
    display_name   = optional(string)
    state          = optional(string)
    labels         = optional(map(string), {})
    egress_allowed = optional(list(string))
    force_destroy  = optional(bool)
  })
  default = null
}

variable "quota" {
  description = "What the tenant may use; a limit that is not named has the platform's default, 0 is no limit. Said by an operator, for `tenant`."
  type = object({
    publish_messages_per_second = optional(number)
    publish_bytes_per_second    = optional(number)
    requests_per_second         = optional(number)
    stored_bytes                = optional(number)
    topics                      = optional(number)
    subscriptions               = optional(number)
    in_flight                   = optional(number)
    push_concurrency            = optional(number)
    weight                      = optional(number)
  })
  default = null

  validation {
    condition     = var.quota == null || var.tenant != null
    error_message = "Limits are an operator's to say: name the `tenant` they are for."
  }
}

variable "labels" {
  description = "Labels of everything that the module makes; what has labels of its own adds them."
  type        = map(string)
  default     = {}
  nullable    = false
}

variable "force_destroy" {
  description = "Whether topics and subscriptions that do not say it themselves may be destroyed with messages in them."
  type        = bool
  default     = false
  nullable    = false
}

variable "existing_topics" {
  description = "Topics made elsewhere that subscriptions, schedules and dead letters of this module name."
  type        = set(string)
  default     = []
  nullable    = false
}

variable "clients" {
  description = "Programs with an id and a secret, by name; `grants` are the resources of each role: `{ publisher = [\"topics/orders\"] }`."
  type = map(object({
    display_name = optional(string)
    state        = optional(string)
    grants       = optional(map(list(string)), {})
    labels       = optional(map(string), {})
    # Another value makes another secret; the old one holds for so long.
    secret_version     = optional(string)
    old_secret_seconds = optional(number)
  }))
  default  = {}
  nullable = false
}

variable "api_keys" {
  description = "Keys for what cannot ask for tokens, by name; `scopes` are all that one may do."
  type = map(object({
    scopes     = list(string)
    state      = optional(string)
    expires_at = optional(string)
    labels     = optional(map(string), {})
    # As for clients.
    secret_version     = optional(string)
    old_secret_seconds = optional(number)
  }))
  default  = {}
  nullable = false
}

variable "policies" {
  description = "Roles for members that are no clients of this module, such as people of an issuer, by name."
  type = map(object({
    role      = string
    members   = list(string)
    resources = optional(list(string))
    labels    = optional(map(string), {})
  }))
  default  = {}
  nullable = false
}

variable "schemas" {
  description = "Schemas that bodies must fit, by name; `definition` is JSON text."
  type = map(object({
    type          = optional(string, "json_schema")
    definition    = string
    compatibility = optional(string)
  }))
  default  = {}
  nullable = false
}

variable "topics" {
  description = "Topics by name; `schema` is one of `schemas`."
  type = map(object({
    partitions = optional(number)
    priorities = optional(number)
    retention = optional(object({
      mode     = optional(string)
      seconds  = optional(number)
      bytes    = optional(number)
      on_limit = optional(string)
    }))
    dedup_window_seconds = optional(number)
    ack_history          = optional(bool)
    schema               = optional(string)
    labels               = optional(map(string), {})
    force_destroy        = optional(bool)
  }))
  default  = {}
  nullable = false

  validation {
    condition     = alltrue([for topic in var.topics : topic.schema == null || contains(keys(var.schemas), coalesce(topic.schema, "-"))])
    error_message = "A topic names a schema that is not in `schemas`: ${join(", ", [for name, topic in var.topics : "${name} (${topic.schema})" if topic.schema != null && !contains(keys(var.schemas), coalesce(topic.schema, "-"))])}."
  }
}

variable "subscriptions" {
  description = "Subscriptions by name. With `push` they bring messages to an endpoint, else they wait for pulls. With `dead_letters` what fails too often goes to a topic, made here where it is not in `topics` or `existing_topics`."
  type = map(object({
    topic                = string
    delivery             = optional(string)
    ordered              = optional(bool)
    ack_deadline_seconds = optional(number)
    filter               = optional(string)
    max_outstanding      = optional(number)
    start = optional(object({
      position = optional(string)
      time     = optional(string)
      offset   = optional(number)
      snapshot = optional(string)
    }))
    retry = optional(object({
      min_backoff_seconds = optional(number)
      max_backoff_seconds = optional(number)
      max_attempts        = optional(number)
      on_exhausted        = optional(string)
    }))
    dead_letters = optional(object({
      topic             = optional(string)
      retention_seconds = optional(number, 1209600)
    }))
    rate_limit = optional(object({
      messages_per_second              = optional(number)
      per_consumer_messages_per_second = optional(number)
    }))
    push = optional(object({
      url     = string
      format  = optional(string)
      signing = optional(set(string))
      oidc = optional(object({
        audience = string
        subject  = optional(string)
      }))
      timeout_seconds       = optional(number)
      max_concurrency       = optional(number)
      max_batch             = optional(number)
      disable_after_seconds = optional(number)
      verify                = optional(bool)
      events_topic          = optional(string)
    }))
    labels        = optional(map(string), {})
    force_destroy = optional(bool)
    # Of what requests are signed with, as for clients.
    secret_version     = optional(string)
    old_secret_seconds = optional(number)
  }))
  default  = {}
  nullable = false

  validation {
    condition = alltrue([
      for subscription in var.subscriptions :
      contains(setunion(keys(var.topics), var.existing_topics), subscription.topic)
    ])
    error_message = "A subscription names a topic that is in neither `topics` nor `existing_topics`: ${join(", ", [for name, subscription in var.subscriptions : "${name} (${subscription.topic})" if !contains(setunion(keys(var.topics), var.existing_topics), subscription.topic)])}."
  }
}

variable "push_headers" {
  description = "Headers that requests to endpoints carry, by subscription: `{ billing = { X-Api-Key = \"…\" } }`. Apart from `subscriptions`, because they are secret."
  type        = map(map(string))
  default     = {}
  nullable    = false
  sensitive   = true
}

variable "schedules" {
  description = "What is published by the clock, by name. The message has `data` (text, or JSON text) or `data_base64`."
  type = map(object({
    topic = string
    cron  = string
    message = object({
      data         = optional(string)
      data_base64  = optional(string)
      content_type = optional(string)
      key          = optional(string)
      attributes   = optional(map(string))
      ttl_seconds  = optional(number)
      priority     = optional(number)
    })
    time_zone   = optional(string)
    missed_runs = optional(string)
    paused      = optional(bool)
    labels      = optional(map(string), {})
  }))
  default  = {}
  nullable = false

  validation {
    condition = alltrue([
      for schedule in var.schedules :
      contains(setunion(keys(var.topics), var.existing_topics), schedule.topic)
    ])
    error_message = "A schedule names a topic that is in neither `topics` nor `existing_topics`: ${join(", ", [for name, schedule in var.schedules : "${name} (${schedule.topic})" if !contains(setunion(keys(var.topics), var.existing_topics), schedule.topic)])}."
  }
}

variable "exports" {
  description = "Topics, or patterns of topics, that are written into tables of a lake, by name."
  type = map(object({
    topic                = string
    start                = optional(string)
    lake                 = optional(string)
    table                = optional(string)
    format               = optional(string)
    body                 = optional(string)
    partition_by         = optional(string)
    key_buckets          = optional(number)
    columns              = optional(map(string))
    keep_data            = optional(bool)
    filter               = optional(string)
    max_bytes_per_second = optional(number)
    maintenance = optional(object({
      target_file_bytes      = optional(number)
      keep_snapshots_seconds = optional(number)
      orphans_after_seconds  = optional(number)
    }))
    cron          = optional(string)
    time_zone     = optional(string)
    missed_runs   = optional(string)
    maintain_cron = optional(string)
    paused        = optional(bool)
    labels        = optional(map(string), {})
  }))
  default  = {}
  nullable = false
}
