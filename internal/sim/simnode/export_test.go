package simnode

// Restore returns the node that Open makes of the content of node.json.
func Restore(dir string, text []byte) (*Node, error) {
	n := in(dir)
	s, err := parse(text)
	if err == nil {
		err = n.restore(s)
	}
	return n, err
}

// Saved returns what Open saves of a node.
func (n *Node) Saved() ([]byte, error) { return n.marshal() }

const MaxDeleted = maxDeleted
