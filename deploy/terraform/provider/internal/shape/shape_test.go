package shape_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/packetboat/terraform-provider-packetboat/internal/contract"
	"github.com/packetboat/terraform-provider-packetboat/internal/shape"
)

const thing = `{
  "type": "object", "required": ["name"],
  "properties": {
    "name": {"type": "string"},
    "ends": {"type": ["string", "null"], "format": "date-time"},
    "weight": {"type": "number", "default": 1},
    "labels": {"type": "object", "additionalProperties": {"type": "string"}},
    "rules": {"anyOf": [{"type": "null"}, {"type": "object", "properties": {
      "attempts": {"type": "integer", "default": 5}, "secret": {"type": "string"}}}]},
    "message": {"type": "object", "properties": {"a": {"type": "string"}}},
    "seen": {"type": "integer"}
  }
}`

func node(t *testing.T, text string) *contract.Node {
	t.Helper()
	var made *contract.Node
	if err := json.Unmarshal([]byte(text), &made); err != nil {
		t.Fatal(err)
	}
	return made
}

// things: `seen` is in answers alone, `rules.secret` in bodies alone.
func things(t *testing.T) *shape.Shape {
	t.Helper()
	body, answer := node(t, thing), node(t, thing)
	delete(body.Properties, "seen")
	delete(answer.Properties["rules"].AnyOf[1].Properties, "secret")
	return shape.OfResource(body, answer, shape.Options{
		"message": {JSON: true}, "rules.secret": {WriteOnly: true},
	})
}

func decoded(t *testing.T, text string) any {
	t.Helper()
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		t.Fatal(err)
	}
	return value
}

func state(t *testing.T, of *shape.Shape, answer string, prior tftypes.Value) tftypes.Value {
	t.Helper()
	made, err := of.State(decoded(t, answer), prior)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

func body(t *testing.T, of *shape.Shape, value tftypes.Value) string {
	t.Helper()
	written, err := json.Marshal(of.Body(value))
	if err != nil {
		t.Fatal(err)
	}
	return string(written)
}

func TestWhatIsSentIsWhatWasAnsweredButWhatTheServerSays(t *testing.T) {
	of := things(t)
	answer := `{"name": "a", "ends": null, "weight": 1e6, "labels": {"x": "y"},
		"rules": {"attempts": 3}, "message": {"b": [1, 2.5]}, "seen": 7}`
	want := `{"labels":{"x":"y"},"message":{"b":[1,2.5]},"name":"a","rules":{"attempts":3},"weight":1000000}`
	if got := body(t, of, state(t, of, answer, tftypes.Value{})); got != want {
		t.Error(got)
	}
}

func TestWhatIsWrittenDifferentlyAndMeansTheSameStaysAsItWas(t *testing.T) {
	of := things(t)
	prior := state(t, of, `{"name": "a", "ends": "2030-01-01T02:00:00+02:00", "labels": {}}`, tftypes.Value{})
	after := state(t, of, `{"name": "a", "ends": "2030-01-01T00:00:00.000000Z", "labels": {}}`, prior)
	if !of.Unchanged(after, prior) {
		t.Error(after)
	}
	later := state(t, of, `{"name": "a", "ends": "2030-01-01T00:00:01Z", "labels": {}}`, prior)
	if of.Unchanged(later, prior) {
		t.Error(later)
	}
}

func TestWhatOnlyTheServerSaysIsNoChange(t *testing.T) {
	of := things(t)
	prior := state(t, of, `{"name": "a", "seen": 1}`, tftypes.Value{})
	members := map[string]tftypes.Value{}
	if err := prior.Copy().As(&members); err != nil {
		t.Fatal(err)
	}
	members["seen"] = tftypes.NewValue(tftypes.Number, tftypes.UnknownValue)
	planned := tftypes.NewValue(of.Type(), members)
	if !of.Unchanged(planned, prior) {
		t.Error("the server's own count is a change")
	}
	members["name"] = tftypes.NewValue(tftypes.String, "b")
	if of.Unchanged(tftypes.NewValue(of.Type(), members), prior) {
		t.Error("another name is none")
	}
}

func TestWhatIsWriteOnlyIsSentAndNotKept(t *testing.T) {
	of := things(t)
	kept := state(t, of, `{"name": "a", "rules": {"attempts": 5, "secret": "s"}}`, tftypes.Value{})
	if strings.Contains(body(t, of, kept), "secret") {
		t.Error("it is in the state")
	}
	rules := of.Members["rules"]
	given := tftypes.NewValue(rules.Type(), map[string]tftypes.Value{
		"attempts": tftypes.NewValue(tftypes.Number, 5), "secret": tftypes.NewValue(tftypes.String, "s"),
	})
	members := map[string]tftypes.Value{}
	if err := kept.As(&members); err != nil {
		t.Fatal(err)
	}
	members["rules"] = given
	sent := of.WithWriteOnly(kept, tftypes.NewValue(of.Type(), members))
	if !strings.Contains(body(t, of, sent), `"secret":"s"`) {
		t.Error(body(t, of, sent))
	}
}

func TestAnAnswerThatIsNotTheContractsIsAnError(t *testing.T) {
	for _, answer := range []string{`{"name": 5}`, `{"weight": "x"}`, `{"labels": []}`, `{"rules": "x"}`} {
		if _, err := things(t).State(decoded(t, answer), tftypes.Value{}); err == nil {
			t.Error(answer)
		}
	}
}

func TestWhatIsLeftOutIsWhatTheContractSays(t *testing.T) {
	of := things(t)
	for name, want := range map[string]bool{"weight": true, "labels": true, "rules": false, "ends": false, "name": false} {
		if of.Members[name].HasDefault != want {
			t.Errorf("%s: %v", name, of.Members[name].Default)
		}
	}
}
