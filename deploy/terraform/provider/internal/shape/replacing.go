package shape

import (
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
)

// Replacing are the attributes whose change makes another thing of it. What is not known yet may be
// another value.
func (s *Shape) Replacing(planned, before tftypes.Value) path.Paths {
	found := s.replacing(path.Empty(), planned, before)
	slices.SortFunc(found, func(one, other path.Path) int {
		return strings.Compare(one.String(), other.String())
	})
	return found
}

func (s *Shape) replacing(at path.Path, planned, before tftypes.Value) path.Paths {
	if s.Replace && !planned.Equal(before) {
		return path.Paths{at}
	}
	if s.Kind != Object || !known(planned) || !known(before) {
		return nil
	}
	var found path.Paths
	next, last := taken[map[string]tftypes.Value](planned), taken[map[string]tftypes.Value](before)
	for name, member := range s.Members {
		found = append(found, member.replacing(at.AtName(name), next[name], last[name])...)
	}
	return found
}
