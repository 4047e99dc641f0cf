#!/bin/bash
# Starts the program of Kafka that the name of this script says, with the variables of Kafka's own scripts.
set -euo pipefail
LOG_DIR=${LOG_DIR:-/opt/kafka/logs}
case ${0##*/} in
kafka-storage.sh) class=kafka.tools.StorageTool ;;
kafka-topics.sh) class=org.apache.kafka.tools.TopicCommand ;;
kafka-console-producer.sh) class=org.apache.kafka.tools.ConsoleProducer ;;
kafka-server-start.sh)
    class=kafka.Kafka
    # The broker's own logs are files, unless a variable says otherwise.
    KAFKA_LOG4J_OPTS=${KAFKA_LOG4J_OPTS:--Dlog4j2.configurationFile=/opt/kafka/config/log4j2.xml}
    if [[ ${EXTRA_ARGS--loggc} == *-loggc* ]]; then
        KAFKA_GC_LOG_OPTS=-Xlog:gc*:file=$LOG_DIR/gc.log:time,tags:filecount=10,filesize=100M
    fi
    ;;
esac
mkdir -p "$LOG_DIR"
# The options are lists of words.
# shellcheck disable=SC2086
exec java ${KAFKA_HEAP_OPTS:--Xmx256M} ${KAFKA_GC_LOG_OPTS:-} "-Dkafka.logs.dir=$LOG_DIR" \
    ${KAFKA_LOG4J_OPTS:-} -cp '/opt/kafka/libs/*' "$class" "$@"
