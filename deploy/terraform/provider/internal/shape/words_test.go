package shape_test

import (
	"encoding/json"
	"testing"

	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/packetboat/terraform-provider-packetboat/internal/shape"
)

const other = `{
  "type": "object",
  "properties": {
    "headers": {"type": "object", "additionalProperties": {"type": "string"}},
    "after": {"type": ["number", "null"], "default": 5},
    "data": {},
    "start": {"type": "string"},
    "within": {"type": "object", "properties": {"at": {"type": "string"}}}
  }
}`

func others(t *testing.T) *shape.Shape {
	t.Helper()
	return shape.OfResource(node(t, other), node(t, other), shape.Options{
		"headers": {Masked: "set"}, "after": {Nothing: json.Number("0")}, "data": {Plain: true},
		"start": {Moment: true}, "within.at": {Replace: true, Absent: true},
	})
}

const shown = `{"headers": {"a": "1", "b": "2"}, "after": 0, "data": "{\"x\": 1}",
	"start": "2026-01-31T12:00:00Z", "within": {"at": "here"}}`

func TestWhatIsSaidInOtherWordsStays(t *testing.T) {
	of := others(t)
	before := state(t, of, shown, tftypes.Value{})

	after := state(t, of, `{"headers": {"a": "set", "b": "set"}, "after": null, "data": "{\"x\":1}",
		"start": "2026-01-31T13:00:00+01:00", "within": {"at": "here"}}`, before)

	if !after.Equal(before) {
		t.Fatal(after)
	}
	if sent := body(t, of, before); sent != `{"after":null,"data":"{\"x\": 1}",`+
		`"headers":{"a":"1","b":"2"},"start":"2026-01-31T12:00:00Z","within":{"at":"here"}}` {
		t.Fatal(sent)
	}
}

func TestWhatIsSaidByNobodyBeforeIsSeen(t *testing.T) {
	of := others(t)

	after := state(t, of, `{"headers": {"a": "set", "c": "set"}}`, state(t, of, shown, tftypes.Value{}))

	if sent := body(t, of, after); sent != `{"after":null,"headers":{"a":"1","c":"set"}}` {
		t.Fatal(sent)
	}
}

func TestWhatMakesAnotherThingIsNamedWhereverItIs(t *testing.T) {
	of := others(t)
	before := state(t, of, shown, tftypes.Value{})
	same := state(t, of, `{"headers": {}, "within": {"at": "here"}}`, tftypes.Value{})
	moved := state(t, of, `{"within": {}}`, tftypes.Value{})

	if found := of.Replacing(same, before); len(found) != 0 {
		t.Fatal(found)
	}
	if found := of.Replacing(moved, before); len(found) != 1 || found[0].String() != "within.at" {
		t.Fatal(found)
	}
}
