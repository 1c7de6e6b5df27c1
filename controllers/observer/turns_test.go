package observer

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"
)

func TestTurnsAreGivenInOrder(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	of := func(names ...string) (all []types.NamespacedName) {
		for _, name := range names {
			all = append(all, user(name))
		}
		return all
	}
	turns := newTurns(1, time.Millisecond)
	g.Expect(turns.take(user("a"))).To(BeTrue())
	for _, name := range []string{"b", "c", "b", "d"} {
		g.Expect(turns.take(user(name))).To(BeFalse())
	}
	g.Expect(turns.give()).To(Equal(of("b")), "who waits longest, and once however often it asked")
	g.Expect(turns.take(user("x"))).To(BeTrue(), "it was faster")
	g.Expect(turns.take(user("b"))).To(BeFalse(), "and waits again")
	g.Expect(turns.give()).To(Equal(of("c")))
	// c has thought better of it: the next to give lets two go on.
	g.Expect(turns.take(user("y"))).To(BeTrue())
	g.Expect(turns.give()).To(Equal(of("d")))
	g.Expect(turns.take(user("d"))).To(BeTrue())
	g.Expect(turns.give()).To(Equal(of("b")))
	g.Expect(turns.inLine).To(BeEmpty())
}

func TestATurnIsWaitedForAMoment(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	turns := newTurns(1, time.Hour)
	g.Expect(turns.take(user("a"))).To(BeTrue())
	taken := make(chan bool)
	go func() { taken <- turns.take(user("b")) }()
	g.Consistently(taken, "20ms").ShouldNot(Receive())
	g.Expect(turns.give()).To(BeEmpty())
	g.Eventually(taken).Should(Receive(BeTrue()))
}
