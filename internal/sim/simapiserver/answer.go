package simapiserver

import (
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

type fields map[string]any

func write(w io.Writer, value any) {
	_ = json.NewEncoder(w).Encode(value) // a client that has gone needs no answer
}

func status(code int, message string) fields {
	return fields{"kind": "Status", "apiVersion": "v1", "metadata": fields{}, "status": "Failure", "message": message, "code": code}
}

// object is a node as PartialObjectMetadata, or whole.
func object(name string, n node, version int, partial bool) fields {
	o := fields{
		"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1",
		"metadata": fields{
			"name": name, "uid": n.uid, "resourceVersion": strconv.Itoa(version), "annotations": n.annotations,
			"creationTimestamp": "2026-01-01T00:00:00Z", "labels": fields{"kubernetes.io/hostname": name},
			"managedFields": []fields{{"manager": "kubelet", "operation": "Update", "fieldsV1": fields{"f:status": fields{}}}},
		},
	}
	if !partial {
		o["kind"], o["apiVersion"] = "Node", "v1"
		o["spec"] = fields{"podCIDR": "10.0.0.0/24"}
		o["status"] = fields{"images": []fields{{"names": []string{strings.Repeat("x", 50<<10)}}}, "conditions": []fields{{"type": "Ready", "message": "m", "reason": "r"}}}
	}
	return o
}

func (s *Server) partial(r *http.Request) bool {
	return !s.plain && strings.Contains(r.Header.Get("Accept"), "as=PartialObjectMetadata")
}

func (s *Server) list(w http.ResponseWriter, r *http.Request, name string) {
	s.mu.Lock()
	list := fields{
		"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1",
		"metadata": fields{"resourceVersion": strconv.Itoa(s.version)}, "items": []fields{},
	}
	if !s.partial(r) {
		list["kind"], list["apiVersion"] = "NodeList", "v1"
	}
	if n, ok := s.nodes[name]; ok {
		list["items"] = []fields{object(name, n, s.version, s.partial(r))}
	}
	s.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	write(w, list)
}

func (s *Server) watch(w http.ResponseWriter, r *http.Request, name string) {
	from, partial := number(r.FormValue("resourceVersion")), false
	over := time.NewTimer(time.Duration(number(r.FormValue("timeoutSeconds"))) * time.Second)
	defer over.Stop()
	w.Header().Set("Content-Type", "application/json;stream=watch")
	flush(w)
	for {
		s.mu.Lock()
		changed, hangup, gone := s.changed, s.hangup, s.gone
		var news []change
		for _, c := range s.history {
			if c.version > from && (c.name == name || c.kind == "BOOKMARK") {
				news = append(news, c)
			}
		}
		partial = s.partial(r)
		s.mu.Unlock()
		if from < gone {
			write(w, fields{"type": "ERROR", "object": status(http.StatusGone, "too old resource version")})
			return
		}
		for _, c := range news {
			write(w, fields{"type": c.kind, "object": object(c.name, c.node, c.version, partial)})
			from = c.version
		}
		flush(w)
		select {
		case <-changed:
		case <-hangup:
			return
		case <-over.C:
			return
		case <-r.Context().Done():
			return
		}
	}
}

func flush(w http.ResponseWriter) {
	_ = http.NewResponseController(w).Flush() // a client that has gone needs no answer
}
