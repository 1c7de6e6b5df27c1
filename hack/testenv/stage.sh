# Sourced by the scripts that take minutes: says what is being done and for how long.
# shellcheck shell=bash

# stage LABEL COMMAND...: runs the command, printing the label, every 30 s the time spent, and the time at the end, all on
# standard error. Its exit code is the command's.
stage() {
	local label=$1 begun=$SECONDS code=0
	shift
	echo "==> $label" >&2
	(
		# The sleeping child must not outlive the stage: it would hold the caller's pipes open.
		trap 'kill $! 2>/dev/null; exit' TERM
		while :; do
			sleep 30 &
			wait $!
			echo "    $label: $((SECONDS - begun)) s so far" >&2
		done
	) &
	local ticker=$!
	"$@" || code=$?
	kill "$ticker" 2>/dev/null
	wait "$ticker" 2>/dev/null
	if [ "$code" -eq 0 ]; then
		echo "==> $label: done in $((SECONDS - begun)) s" >&2
	else
		echo "==> $label: FAILED (exit code $code) after $((SECONDS - begun)) s" >&2
	fi
	return "$code"
}
