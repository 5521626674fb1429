package main

const (
	vectorBits  = 5
	vectorWidth = 1 << vectorBits
)

// A vector is an immutable list of numbers by index; what was never set is absent. A change copies
// the path to the index and shares the rest, since the search for an order keeps many states.
type vector struct {
	root  *vectorNode
	depth int
}

type vectorNode struct {
	children [vectorWidth]*vectorNode
	values   [vectorWidth]int
	present  uint32
}

func (v vector) get(index int) (int, bool) {
	if index < 0 || index>>(vectorBits*(v.depth+1)) != 0 {
		return 0, false
	}
	node := v.root
	for level := v.depth; node != nil && level > 0; level-- {
		node = node.children[index>>(vectorBits*level)&(vectorWidth-1)]
	}
	if node == nil {
		return 0, false
	}
	slot := index & (vectorWidth - 1)
	return node.values[slot], node.present>>slot&1 == 1
}

func (v vector) with(index, value int) vector {
	for index>>(vectorBits*(v.depth+1)) != 0 {
		if v.root != nil {
			above := &vectorNode{}
			above.children[0] = v.root
			v.root = above
		}
		v.depth++
	}
	return vector{v.root.with(index, value, v.depth), v.depth}
}

func (n *vectorNode) with(index, value, level int) *vectorNode {
	copied := &vectorNode{}
	if n != nil {
		*copied = *n
	}
	slot := index >> (vectorBits * level) & (vectorWidth - 1)
	if level == 0 {
		copied.values[slot] = value
		copied.present |= 1 << slot
	} else {
		copied.children[slot] = copied.children[slot].with(index, value, level-1)
	}
	return copied
}
