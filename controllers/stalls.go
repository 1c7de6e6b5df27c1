package controllers

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// stalls knows which objects are stalled and why, so that what stalls a thousand of them is logged once. Its zero value
// is ready; it may be used concurrently.
type stalls struct {
	mu      sync.Mutex
	why     map[types.NamespacedName]string
	objects map[string]int
}

// set takes note of what stalls an object, empty for nothing, and returns whether that stalls no other object yet.
func (s *stalls) set(object types.NamespacedName, why string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.why[object]
	if why == before {
		return false
	}
	if before != "" {
		if s.objects[before]--; s.objects[before] == 0 {
			delete(s.objects, before)
		}
		delete(s.why, object)
	}
	if why == "" {
		return false
	}
	if s.why == nil {
		s.why, s.objects = map[types.NamespacedName]string{}, map[string]int{}
	}
	s.why[object] = why
	s.objects[why]++
	return s.objects[why] == 1
}
