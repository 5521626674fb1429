package resources

// All are the kinds that the provider has.
func All() []Kind {
	return []Kind{
		APIKey(),
		Client(),
		Issuer(),
		Policy(),
		Quota(),
		Tenant(),
	}
}
