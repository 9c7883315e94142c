package apiserver

import (
	"bytes"
	"io"
)

// The parsers, for fuzz tests.
var (
	ParseKubeconfig = parseKubeconfig
	ParseRefusal    = parseRefusal
)

func ParseList(data []byte, name string) (Node, error) {
	var list nodeList
	if err := newDecoder(bytes.NewReader(data)).decode(&list); err != nil {
		return Node{}, err
	}
	return list.node(name)
}

func ParsePod(data []byte, namespace, name string) (string, error) {
	var pod object
	if err := newDecoder(bytes.NewReader(data)).decode(&pod); err != nil {
		return "", err
	}
	return pod.Metadata.UID, pod.isPod(namespace, name)
}

// ReadEvents returns the nodes from the events up to the first error.
func ReadEvents(from io.Reader, name string) (nodes []Node, err error) {
	for events := newDecoder(from); ; {
		var e watchEvent
		if err := events.decode(&e); err != nil {
			return nodes, err
		}
		node, err := e.node(name)
		if err != nil {
			return nodes, err
		}
		nodes = append(nodes, node)
	}
}
