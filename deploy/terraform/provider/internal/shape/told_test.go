package shape

import (
	"encoding/json"
	"testing"

	"github.com/packetboat/terraform-provider-packetboat/internal/contract"
)

func TestTextsSayTheValuesThereMayBeAndTheOneLeftOut(t *testing.T) {
	kinds := &contract.Node{Type: contract.Types{Name: "string"}, Enum: []any{"v1", "v1a"}}
	for _, one := range []struct {
		node *contract.Node
		told string
	}{
		{&contract.Node{Type: contract.Types{Name: "string"}, Description: "Its name."}, "Its name."},
		{
			&contract.Node{Type: contract.Types{Name: "string"}, Enum: []any{"a", "b"}, Default: json.RawMessage(`"a"`)},
			"One of `a`, `b`. Default: `a`.",
		},
		{&contract.Node{Type: contract.Types{Name: "integer"}, Default: json.RawMessage(`0`)}, "Default: `0`."},
		{&contract.Node{Type: contract.Types{Name: "array"}, Items: kinds}, "Any of `v1`, `v1a`."},
		{
			&contract.Node{Type: contract.Types{Name: "array"}, Items: kinds, Default: json.RawMessage(`["v1"]`)},
			"Any of `v1`, `v1a`. Default: `v1`.",
		},
	} {
		if told := of("", one.node, one.node, nil).Text; told != one.told {
			t.Errorf("%q, not %q", told, one.told)
		}
	}
}
