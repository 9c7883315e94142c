package apiserver_test

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"b-com.com/accelerator-device-plugin/internal/apiserver"
)

func FuzzList(f *testing.F) {
	f.Add([]byte(head + item + "}}}]}"))
	f.Add([]byte(head + "]}"))
	f.Add([]byte(`{"kind":"NodeList","metadata":{"resourceVersion":"1"},"items":[null]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		n, version, err := apiserver.ParseList(data, name)
		if err != nil {
			return
		}
		if version == "" || n.Name != name || n.Exists != (n.UID != "") || !n.Exists && n.Annotations != nil {
			t.Errorf("node %+v, version %q", n, version)
		}
	})
}

// Events are the same however the bytes are cut, and end.
func FuzzEvents(f *testing.F) {
	f.Add([]byte(`{"type":"MODIFIED","object":` + item + `}}}}` + "\n" + `{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"2"}}}`))
	f.Add([]byte(`{"type":"ERROR","object":{"kind":"Status","code":410}}` + "\n\n{"))
	f.Add([]byte(`{"type":"DELETED","object":{"metadata":{"name":"worker-3","uid":"u","resourceVersion":"3"}}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		read := func(from io.Reader) (said []string) {
			begun := 0
			stream := apiserver.NewEvents(from, func() { begun++ })
			for {
				e, err := stream.Next()
				if err != nil {
					return append(said, err.Error())
				}
				if begun != len(said)+1 {
					t.Fatalf("event %d ended, but %d began", len(said)+1, begun)
				}
				version, n, err := e.News(name)
				if err == nil && (version == "" || n != nil && (n.Name != name || n.Exists != (n.UID != ""))) {
					t.Errorf("event %+v: version %q, node %+v", e, version, n)
				}
				said = append(said, version)
			}
		}
		whole := read(bytes.NewReader(data))
		if bytewise := read(iotest.OneByteReader(bytes.NewReader(data))); strings.Join(whole, "|") != strings.Join(bytewise, "|") {
			t.Errorf("whole %q, byte by byte %q", whole, bytewise)
		}
	})
}

func FuzzKubeconfig(f *testing.F) {
	f.Add([]byte(kubeconfig("server: 'https://10.0.0.1:6443', certificate-authority-data: YQ==", "tokenFile: token")))
	f.Add([]byte(kubeconfig("server: 'http://127.0.0.1:8001'", "exec: {}")))
	f.Fuzz(func(_ *testing.T, data []byte) {
		_, _ = apiserver.ParseKubeconfig(data, "/dir")
	})
}

func FuzzRefusal(f *testing.F) {
	f.Add(403, []byte(`{"kind":"Status","message":"no"}`))
	f.Add(403, []byte(`{"kind":"Status","message":"no","details":{"causes":[{"reason":"NamespaceTerminating"},null]}}`))
	f.Add(503, []byte(strings.Repeat("ü", 400)))
	f.Fuzz(func(t *testing.T, code int, body []byte) {
		if text := apiserver.ParseRefusal(code, body).Error(); len(text) > 400 || strings.ContainsAny(text, "\n\r") {
			t.Errorf("%d bytes: %q", len(text), text)
		}
	})
}

func FuzzPod(f *testing.F) {
	f.Add([]byte(`{"kind":"PartialObjectMetadata","metadata":{"namespace":"work","name":"job","uid":"uid-1"}}`))
	f.Add([]byte(`{"metadata":{"namespace":"work","name":"jab","uid":"` + strings.Repeat("u", 400) + `"}}`))
	f.Add([]byte(`[]`))
	f.Fuzz(func(t *testing.T, data []byte) {
		uid, err := apiserver.ParsePod(data, "work", "job")
		if (uid == "") != (err != nil) || len(uid) > 256 {
			t.Errorf("uid %q, %v", uid, err)
		}
	})
}
