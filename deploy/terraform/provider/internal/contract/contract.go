// Package contract is the HTTP contract as the server publishes it: what a body may hold, with
// which limits and defaults, and what an answer has. contract.json is made from openapi/ by
// `make generate`, so nothing of it is typed again here.
package contract

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"slices"
)

//go:embed contract.json
var text []byte

var schemas = parse(text)

// Types is the JSON type of a value, and whether null will do as well.
type Types struct {
	Name     string
	Nullable bool
}

// UnmarshalJSON reads `"string"` and `["string", "null"]`.
func (t *Types) UnmarshalJSON(text []byte) error {
	var several []string
	if json.Unmarshal(text, &several) != nil {
		return json.Unmarshal(text, &t.Name)
	}
	for _, name := range several {
		switch {
		case name == "null":
			t.Nullable = true
		case t.Name == "" || t.Name == "integer" && name == "number":
			t.Name = name
		}
	}
	return nil
}

// Node is one schema, or a part of one: what the provider reads of JSON Schema.
type Node struct {
	Ref         string           `json:"$ref"`
	Type        Types            `json:"type"`
	Description string           `json:"description"`
	Default     json.RawMessage  `json:"default"`
	Enum        []any            `json:"enum"`
	Format      string           `json:"format"`
	Pattern     string           `json:"pattern"`
	MinLength   *int             `json:"minLength"`
	MaxLength   *int             `json:"maxLength"`
	Minimum     *json.Number     `json:"minimum"`
	Maximum     *json.Number     `json:"maximum"`
	Above       *json.Number     `json:"exclusiveMinimum"`
	Below       *json.Number     `json:"exclusiveMaximum"`
	MinItems    *int             `json:"minItems"`
	MaxItems    *int             `json:"maxItems"`
	Unique      bool             `json:"uniqueItems"`
	MinMembers  *int             `json:"minProperties"`
	MaxMembers  *int             `json:"maxProperties"`
	Names       *Node            `json:"propertyNames"`
	Items       *Node            `json:"items"`
	Properties  map[string]*Node `json:"properties"`
	Required    []string         `json:"required"`
	Others      json.RawMessage  `json:"additionalProperties"`
	AnyOf       []*Node          `json:"anyOf"`
	OneOf       []*Node          `json:"oneOf"`
	AllOf       []*Node          `json:"allOf"`
}

// Schema is the one of that name, or nil.
func Schema(name string) *Node {
	return schemas[name].Resolved()
}

// Names are those of all schemas.
func Names() []string {
	var names []string
	for name := range schemas {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Resolved is the node that says itself what it refers to, and whether null will do. Where several
// alternatives besides null are left, they stay in AnyOf or OneOf.
func (n *Node) Resolved() *Node {
	if n == nil {
		return nil
	}
	found := *n
	if n.Ref != "" {
		found = *schemas[nameOf(n.Ref)].Resolved()
		if n.Description != "" {
			found.Description = n.Description
		}
		if n.Default != nil {
			found.Default = n.Default
		}
	}
	for _, part := range found.AllOf {
		found.merge(part.Resolved())
	}
	found.AnyOf, found.OneOf, found.AllOf = found.choose(found.AnyOf), found.choose(found.OneOf), nil
	return &found
}

// choose takes the one alternative to null over, where there is just one.
func (n *Node) choose(alternatives []*Node) []*Node {
	var left []*Node
	for _, one := range alternatives {
		if one.Type.Name == "" && one.Type.Nullable || one.Type.Name == "null" {
			n.Type.Nullable = true
		} else {
			left = append(left, one)
		}
	}
	if len(left) != 1 {
		return left
	}
	n.merge(left[0].Resolved())
	return nil
}

// merge adds what the other says and this does not.
func (n *Node) merge(other *Node) {
	own := *n
	*n = *other
	n.Type.Nullable = n.Type.Nullable || own.Type.Nullable
	if own.Type.Name != "" {
		n.Type.Name = own.Type.Name
	}
	if own.Description != "" {
		n.Description = own.Description
	}
	if own.Default != nil {
		n.Default = own.Default
	}
	n.Properties = joined(own.Properties, other.Properties)
	n.Required = append(slices.Clone(own.Required), other.Required...)
	if own.Others != nil {
		n.Others = own.Others
	}
}

func joined(one, other map[string]*Node) map[string]*Node {
	all := map[string]*Node{}
	for _, part := range []map[string]*Node{other, one} {
		for name, node := range part {
			all[name] = node
		}
	}
	return all
}

// Values is what an object that is a map has for each of its names; nil for other objects.
func (n *Node) Values() *Node {
	var values *Node
	if json.Unmarshal(n.Others, &values) != nil {
		return nil // false, or true: anything
	}
	return values.Resolved()
}

// DefaultValue is what a value left out becomes, and whether that is known.
func (n *Node) DefaultValue() (any, bool) {
	if n.Default == nil {
		return nil, false
	}
	return decoded(n.Default), true
}

func nameOf(ref string) string {
	const prefix = "#/components/schemas/"
	name := ref[min(len(prefix), len(ref)):]
	if schemas[name] == nil {
		panic(fmt.Sprintf("the contract refers to %q, which it lacks: make generate", ref))
	}
	return name
}

func parse(text []byte) map[string]*Node {
	var all map[string]*Node
	if err := json.Unmarshal(text, &all); err != nil {
		panic(fmt.Sprintf("contract.json: %v", err))
	}
	return all
}
