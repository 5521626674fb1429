// Package shape is what an attribute is, to Terraform and in JSON: made of the contract, and of the
// little that a resource says beside it. From it come schemas, bodies and states.
package shape

import (
	"slices"

	"github.com/packetboat/terraform-provider-packetboat/internal/contract"
)

// Kind is what values there are.
type Kind int

// JSON is a text that holds any JSON, in Terraform; in the API the JSON itself.
const (
	Text Kind = iota
	Bool
	Integer
	Number
	List
	Set
	Map
	Object
	JSON
)

// Option is what a resource says of one attribute, beside the contract.
type Option struct {
	// Instead takes the place of the contract's description, where the attribute differs.
	Instead string
	// Also follows the contract's description, where the attribute has another rule besides.
	Also string
	// Replace: a change makes another thing.
	Replace bool
	// Sensitive: shown nowhere.
	Sensitive bool
	// WriteOnly: in no plan and no state; sent whenever something is sent.
	WriteOnly bool
	// Stable: what the server says at first, it says for good.
	Stable bool
	// Chosen: left out, the server chooses, and that stays.
	Chosen bool
	// Absent: left out it is not there, though the contract does not say that it may be null.
	Absent bool
	// Set: an array without order, in which nothing is twice.
	Set bool
	// JSON: an array or an object of any shape, written with jsonencode().
	JSON bool
	// Plain: a text, though the contract takes any JSON there; what is the same JSON is the same.
	Plain bool
	// Moment: a text that may be a time.
	Moment bool
	// Masked is what answers show instead of each value of a map: it is then as it was before.
	Masked string
	// Nothing is what says null where null, left out, is something else: as JSON has it.
	Nothing any
	// Omit: not an attribute.
	Omit bool
	// OnlyRead: of data sources alone, as it changes all the time.
	OnlyRead bool
	// Required, where the contract lets it be left out.
	Required bool
	// Own: no member of bodies and answers, and settable all the same.
	Own bool
}

// Options are by the attribute's path: `labels`, `push.endpoint`; members of items have their
// list's path before them.
type Options map[string]Option

// Shape is one attribute, or what is in one.
type Shape struct {
	Kind    Kind
	Element *Shape
	Members map[string]*Shape
	Text    string
	// Limits are of values that may be set; nil: not to be set.
	Limits *contract.Node
	// Sent and Answered: a member of bodies, of answers.
	Sent, Answered bool
	Required       bool
	// HasDefault: left out it is Default, as JSON has it.
	HasDefault bool
	Default    any
	Time       bool
	Option
}

// OfResource joins what a body may have with what an answer has.
func OfResource(body, answer *contract.Node, options Options) *Shape {
	kept := Options{}
	for name, option := range options {
		option.Omit = option.Omit || option.OnlyRead
		kept[name] = option
	}
	return of("", body.Resolved(), answer.Resolved(), kept)
}

// OfData is all that an answer has.
func OfData(answer *contract.Node, options Options) *Shape {
	return of("", nil, answer.Resolved(), options)
}

// Member is an attribute that the contract has in other words: as if it were that node, in bodies
// and answers.
func Member(node *contract.Node, options Options) *Shape {
	return of("", node.Resolved(), node.Resolved(), options)
}

// OfOwn is an attribute of the provider's own, which no body and no answer has, and which may be
// left out; its default, where that is not nil.
func OfOwn(kind Kind, text string, fallback any) *Shape {
	return &Shape{
		Kind: kind, Text: text, HasDefault: fallback != nil, Default: fallback, Option: Option{Own: true},
	}
}

// OfSecret is what some answers say that make one, and none that shows one: it is kept as it was.
func OfSecret(text string) *Shape {
	return &Shape{Kind: Text, Text: text, Option: Option{Sensitive: true, Stable: true}}
}

func of(path string, body, answer *contract.Node, options Options) *Shape {
	node := body
	if node == nil {
		node = answer
	}
	made := &Shape{
		Kind: kindOf(node), Limits: body, Sent: body != nil, Answered: answer != nil,
		Text: node.Description, Option: options[path],
	}
	made.Time = node.Format == "date-time" || made.Moment
	if made.Text == "" && answer != nil {
		made.Text = answer.Description
	}
	if made.Also != "" && made.Text != "" {
		made.Text += " " + made.Also
	}
	if made.Instead != "" {
		made.Text = made.Instead
	}
	switch {
	case made.JSON:
		made.Kind = JSON
	case made.Plain:
		made.Kind = Text
	case made.Kind == List:
		made.Element = of(path, items(body), items(answer), plain(options, path))
		if made.Set {
			made.Kind = Set
		}
	case made.Kind == Map:
		made.Element = of(path, values(body), values(answer), plain(options, path))
	case made.Kind == Object:
		made.Members = membersOf(path, body, answer, options)
	}
	made.HasDefault, made.Default = made.fallback(body)
	if body != nil {
		made.Text = made.told()
	}
	return made
}

// plain: what is said of a list is not said of its items.
func plain(options Options, path string) Options {
	rest := Options{}
	for name, option := range options {
		if name != path {
			rest[name] = option
		}
	}
	return rest
}

func kindOf(node *contract.Node) Kind {
	switch node.Type.Name {
	case "boolean":
		return Bool
	case "integer":
		return Integer
	case "number":
		return Number
	case "array":
		return List
	case "object":
		if node.Values() != nil && len(node.Properties) == 0 {
			return Map
		}
		if len(node.Properties) > 0 {
			return Object
		}
		return JSON
	case "string":
		return Text
	}
	return JSON
}

func items(node *contract.Node) *contract.Node {
	if node == nil {
		return nil
	}
	return node.Items.Resolved()
}

func values(node *contract.Node) *contract.Node {
	if node == nil {
		return nil
	}
	return node.Values()
}

func membersOf(path string, body, answer *contract.Node, options Options) map[string]*Shape {
	members := map[string]*Shape{}
	for _, name := range namesOf(body, answer) {
		below := name
		if path != "" {
			below = path + "." + name
		}
		if option := options[below]; !option.Omit {
			member := of(below, property(body, name), property(answer, name), options)
			member.Required = option.Required ||
				body != nil && slices.Contains(body.Required, name)
			members[name] = member
		}
	}
	return members
}

func namesOf(nodes ...*contract.Node) []string {
	var names []string
	for _, node := range nodes {
		if node != nil {
			for name := range node.Properties {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func property(node *contract.Node, name string) *contract.Node {
	if node == nil {
		return nil
	}
	return node.Properties[name].Resolved()
}

// fallback is what a value left out is: what the contract says; for maps and arrays that do not
// have to be there, an empty one; for an object, one in which all is left out, if that can be.
func (s *Shape) fallback(body *contract.Node) (bool, any) {
	if body == nil || s.Chosen || s.WriteOnly {
		return false, nil
	}
	if value, known := body.DefaultValue(); known {
		return value != nil, s.completed(value)
	}
	if body.Type.Nullable {
		return false, nil
	}
	switch s.Kind {
	case Map:
		return body.MinMembers == nil, map[string]any{}
	case List, Set:
		return body.MinItems == nil, []any{}
	case Object:
		return s.emptied()
	}
	return false, nil
}

// completed is the default of an object with those of its members.
func (s *Shape) completed(value any) any {
	object, ok := value.(map[string]any)
	if !ok || s.Kind != Object {
		return value
	}
	for name, member := range s.Members {
		if _, there := object[name]; !there && member.HasDefault {
			object[name] = member.Default
		}
	}
	return object
}

func (s *Shape) emptied() (bool, any) {
	object := map[string]any{}
	for name, member := range s.Members {
		if member.Required || member.Chosen || !member.Sent {
			return false, nil
		}
		if member.HasDefault {
			object[name] = member.Default
		} else if !member.Limits.Type.Nullable && member.Limits.Default == nil {
			return false, nil
		}
	}
	return true, object
}

// settable by whoever writes a configuration.
func (s *Shape) settable() bool { return s.Sent || s.Own }
