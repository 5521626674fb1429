package resources

// All are the kinds that the provider has.
func All() []Kind {
	return []Kind{
		APIKey(),
		Client(),
		Export(),
		Issuer(),
		Policy(),
		Quota(),
		Schedule(),
		Schema(),
		Subscription(),
		Tenant(),
		Topic(),
	}
}
