package contract_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/packetboat/terraform-provider-packetboat/internal/contract"
)

// walk visits all that a schema is made of.
func walk(node *contract.Node, visit func(*contract.Node)) {
	if node == nil {
		return
	}
	visit(node)
	for _, below := range node.Properties {
		walk(below, visit)
	}
	for _, several := range [][]*contract.Node{node.AnyOf, node.OneOf, node.AllOf} {
		for _, one := range several {
			walk(one, visit)
		}
	}
	walk(node.Items, visit)
	walk(node.Names, visit)
	if node.Others != nil {
		walk(node.Values(), visit)
	}
}

func TestEveryPatternIsOneThatGoKnows(t *testing.T) {
	for _, name := range contract.Names() {
		walk(contract.Schema(name), func(node *contract.Node) { node.Expression() })
	}
}

func TestLimits(t *testing.T) {
	for _, one := range []struct {
		schema, value, wrong string
	}{
		{"ClientBody", `{"name": "shop", "labels": {"team": "a"}}`, ""},
		{"ClientBody", `{"name": "no/slash"}`, "name: has to match"},
		{"ClientBody", `{"display_name": "bell \u0007"}`, "display_name: has to match"},
		{"ClientBody", `{"display_name": "` + strings.Repeat("ä", 256) + `"}`, "at most 255 characters; it has 256"},
		{"ClientBody", `{"state": "asleep"}`, `one of active, disabled; it is "asleep"`},
		{"ClientBody", `{"labels": {"bad key": "x"}}`, "its name: has to match"},
		{"PolicyBody", `{"members": []}`, "at least 1 items"},
		{"PolicyBody", `{"members": ["key:x"]}`, "members.0: has to match"},
		{"PolicyBody", `{"resources": ["*", "exports/a-*"]}`, ""},
		{"PolicyBody", `{"resources": ["nothing/x"]}`, "resources.0"},
		{"KeyBody", `{"scopes": ["read", "publish:topics/orders-*"]}`, ""},
		{"KeyBody", `{"scopes": ["operate"]}`, "scopes.0"},
		{"KeyBody", `{"expires_at": "tomorrow"}`, "has to be a time"},
		{"KeyBody", `{"expires_at": null}`, ""},
		{"QuotaBody", `{"limits": {"topics": -1}}`, "limits.topics: at least 0; it is -1"},
		{"QuotaBody", `{"limits": {"topics": 9007199254740993}}`, "at most 9007199254740992"},
		{"QuotaBody", `{"weight": 0}`, "more than 0"},
	} {
		if found := broken(t, one.schema, one.value); one.wrong == "" && found != "" ||
			!strings.Contains(found, one.wrong) {
			t.Errorf("%s %s: %q", one.schema, one.value, found)
		}
	}
}

func broken(t *testing.T, schema, text string) string {
	t.Helper()
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		t.Fatal(err)
	}
	var texts []string
	for _, one := range contract.Schema(schema).Check(value) {
		var at []string
		for _, step := range one.At {
			written, _ := json.Marshal(step)
			at = append(at, strings.Trim(string(written), `"`))
		}
		texts = append(texts, strings.Join(at, ".")+": "+one.Text)
	}
	return strings.Join(texts, "; ")
}
