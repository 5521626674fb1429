package shape

import "github.com/hashicorp/terraform-plugin-go/tftypes"

// WithWriteOnly is the plan with what only the configuration has: plans have null there.
func (s *Shape) WithWriteOnly(plan, config tftypes.Value) tftypes.Value {
	if s.WriteOnly {
		return config
	}
	if s.Kind != Object || !known(plan) || !known(config) {
		return plan
	}
	members, given := taken[map[string]tftypes.Value](plan), taken[map[string]tftypes.Value](config)
	for name, member := range s.Members {
		members[name] = member.WithWriteOnly(members[name], given[name])
	}
	return tftypes.NewValue(s.Type(), members)
}
