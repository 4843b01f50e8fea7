#!/bin/sh
# A mulligan worker in shell, with curl and sed:
#
#   worker.sh http://127.0.0.1:8420 QUEUE COMMAND...
#
# For each job it runs `COMMAND... TASK` with the job as JSON on its standard input. What the command
# prints must be JSON and is the result; if it fails, the attempt has failed, and the last line that it
# wrote to standard error is the reason. Exit status 65 means that no retry would help.
# With tokens, set MULLIGAN_TOKEN. One job runs at a time; ids with quotes in them are not for this one.

command -v curl >/dev/null || { echo "$0 needs curl; install it" >&2; exit 69; }
base=$1 queue=$2
shift 2

post() {
    curl -sS --fail-with-body -H 'Content-Type: application/json' \
        ${MULLIGAN_TOKEN:+-H "Authorization: Bearer $MULLIGAN_TOKEN"} -d "$2" "$base$1"
}

quoted() { # the last line of a file as a JSON string
    tail -n 1 "$1" | tr -d '\000-\037' | sed 's/\\/\\\\/g; s/"/\\"/g; s/.*/"&"/'
}

worker=$(post /worker/join "{\"queues\": [\"$queue\"], \"name\": \"shell\"}" |
    sed -n 's/.*"worker":"\([^"]*\)".*/\1/p')
[ -n "$worker" ] || { echo "cannot join $base" >&2; exit 1; }
echo "joined as $worker"
folder=$(mktemp -d)
(while sleep 5; do post /worker/heartbeat "{\"worker\": \"$worker\"}" >/dev/null; done) &
beating=$!
stopping=
trap 'stopping=1' TERM INT
trap 'kill $beating 2>/dev/null; rm -rf "$folder"; post /worker/leave "{\"worker\": \"$worker\"}" >/dev/null' EXIT

while [ -z "$stopping" ]; do
    answer=$(post /worker/claim "{\"worker\": \"$worker\", \"limit\": 1, \"wait\": 2}") || { sleep 1; continue; }
    job=$(printf '%s' "$answer" | sed -n 's/^{"jobs":\[\({.*}\)\]}$/\1/p')
    [ -n "$job" ] || continue
    id=$(printf '%s' "$job" | sed 's/^{"id":"\([^"]*\)".*/\1/')
    token=$(printf '%s' "$job" | sed 's/^{"id":"[^"]*","token":\([0-9]*\).*/\1/')
    task=$(printf '%s' "$job" | sed 's/^{"id":"[^"]*","token":[0-9]*,"task":"\([^"]*\)".*/\1/')
    result=$(printf '%s\n' "$job" | "$@" "$task" 2>"$folder/errors")
    status=$?
    if [ $status -eq 0 ]; then
        path=/worker/ack said="\"result\": ${result:-null}"
    else
        reason=$(quoted "$folder/errors")
        non_retryable=$([ $status -eq 65 ] && echo true || echo false)
        path=/worker/nack said="\"type\": \"Exit$status\", \"reason\": ${reason:-\"\"}, \"non_retryable\": $non_retryable"
    fi
    until post $path "{\"worker\": \"$worker\", \"jobs\": [{\"id\": \"$id\", \"token\": $token, $said}]}"; do
        # 22: the server does not want this result. Anything else: it is away, and sending again is safe.
        [ $? -ne 22 ] || path=/worker/nack said='"reason": "the server refused the result"'
        sleep 1
    done
    echo
done
