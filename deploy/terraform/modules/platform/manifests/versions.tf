# No provider is needed: objects are only computed. `terraform_data` is built into Terraform.
terraform {
  required_version = ">= 1.9"
}
