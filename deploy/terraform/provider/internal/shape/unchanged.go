package shape

import "github.com/hashicorp/terraform-plugin-go/tftypes"

// Unchanged is true for a plan that asks for nothing: all that can be asked for is as it is. What
// only the server says counts for nothing then; the framework takes it for unknown as soon as the
// configuration is written differently.
func (s *Shape) Unchanged(plan, prior tftypes.Value) bool {
	if s.Kind != Object || !known(plan) || !known(prior) {
		return plan.Equal(prior)
	}
	planned, before := taken[map[string]tftypes.Value](plan), taken[map[string]tftypes.Value](prior)
	for name, member := range s.Members {
		if !member.settable() && !planned[name].IsKnown() {
			continue
		}
		if !member.Unchanged(planned[name], before[name]) {
			return false
		}
	}
	return true
}
