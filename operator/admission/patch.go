package admission

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"gomodules.xyz/jsonpatch/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
)

// patch returns the operations that turn before into after, and the names of the user's variables that they remove. It
// compares only resources and env, and removes variables by index, so that fields that only newer versions of
// Kubernetes know about are kept, even in the remaining variables.
func patch(before, after *Pod) (ops []jsonpatch.Operation, dropped []string) {
	to := after.lists()
	for l, from := range before.lists() {
		for i := range from.containers {
			a, b := &from.containers[i], &to[l].containers[i]
			path := from.path + "/" + strconv.Itoa(i)
			ops = append(ops, patchResources(path+"/resources/limits/", a.Resources.Limits, b.Resources.Limits)...)
			ops = append(ops, patchResources(path+"/resources/requests/", a.Resources.Requests, b.Resources.Requests)...)
			env, names := patchEnv(path+"/env", a.Env, b.Env)
			ops = append(ops, env...)
			for _, name := range names {
				dropped = append(dropped, from.kind+" "+fmt.Sprintf("%.63q: %.63s", a.Name, name))
			}
		}
	}
	return ops, dropped
}

// patchResources returns the operations that change the resource list at path.
func patchResources(path string, before, after corev1.ResourceList) (ops []jsonpatch.Operation) {
	for _, name := range slices.Sorted(maps.Keys(before)) {
		if _, stays := after[name]; !stays {
			ops = append(ops, jsonpatch.NewOperation("remove", path+escape(string(name)), nil))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(after)) {
		if q, ok := before[name]; !ok || q.Cmp(after[name]) != 0 {
			quantity := after[name]
			ops = append(ops, jsonpatch.NewOperation("add", path+escape(string(name)), quantity.String()))
		}
	}
	return ops
}

// patchEnv returns the operations that remove the reserved variables and append the new ones.
func patchEnv(path string, before, after []corev1.EnvVar) (ops []jsonpatch.Operation, dropped []string) {
	if equality.Semantic.DeepEqual(before, after) {
		return nil, nil
	}
	if len(before) == 0 {
		return []jsonpatch.Operation{jsonpatch.NewOperation("add", path, after)}, nil
	}
	pairs := after[len(after):]
	if first := slices.IndexFunc(after, func(v corev1.EnvVar) bool { return reserved(v.Name) }); first >= 0 {
		pairs = after[first:]
	}
	for i, v := range slices.Backward(before) {
		if !reserved(v.Name) {
			continue
		}
		ops = append(ops, jsonpatch.NewOperation("remove", path+"/"+strconv.Itoa(i), nil))
		if !slices.Contains(pairs, v) {
			dropped = append(dropped, v.Name)
		}
	}
	if len(after) == 0 {
		ops = []jsonpatch.Operation{jsonpatch.NewOperation("remove", path, nil)}
	}
	for _, v := range pairs {
		ops = append(ops, jsonpatch.NewOperation("add", path+"/-", v))
	}
	slices.Reverse(dropped)
	return ops, dropped
}

// escape escapes a key for use in a JSON pointer (RFC 6901).
func escape(key string) string { return strings.NewReplacer("~", "~0", "/", "~1").Replace(key) }
