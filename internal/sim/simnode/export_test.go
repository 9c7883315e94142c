package simnode

// KeepNumbers bounds the inode numbers that do not come back.
func (n *Node) KeepNumbers(limit int) { n.directories.max = limit }

// Occupants is the directory of those that keep numbers from coming back.
func (n *Node) Occupants() string { return n.directories.dir }
