package controllers

import (
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"
)

func TestWhatStallsManyIsNewOnce(t *testing.T) {
	g := NewWithT(t)
	a, b := types.NamespacedName{Name: "a"}, types.NamespacedName{Name: "b"}
	var s stalls
	g.Expect(s.set(a, "")).To(BeFalse())
	g.Expect(s.set(a, "Secret missing")).To(BeTrue())
	g.Expect(s.set(a, "Secret missing")).To(BeFalse(), "the same again")
	g.Expect(s.set(b, "Secret missing")).To(BeFalse(), "another object")
	g.Expect(s.set(b, "wrong key")).To(BeTrue())
	g.Expect(s.set(a, "")).To(BeFalse())
	g.Expect(s.set(a, "Secret missing")).To(BeTrue(), "nobody was stalled by it in between")
	s.set(a, "")
	s.set(b, "")
	g.Expect(s.why).To(BeEmpty())
	g.Expect(s.objects).To(BeEmpty())
}
