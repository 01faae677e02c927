/* Text exposition format 0.0.4 of Prometheus. */
#include "obs/metrics.h"

static void print_label(const struct obs_metrics_values *set, struct text *text)
{
    text_add(text, "{%s=\"", set->label);
    for (size_t i = 0; i < set->value.size && !text->full; i++) {
        uint8_t byte = set->value.at[i];

        if (byte == '\\' || byte == '"')
            text_add(text, "\\%c", byte);
        else if (byte == '\n')
            text_add(text, "\\n");
        else if (byte < 0x20 || byte > 0x7e) /* names are bytes, labels are UTF-8 */
            text_add(text, "\\\\x%02x", byte);
        else
            text_add(text, "%c", byte);
    }
    text_add(text, "\"}");
}

enum snow_status obs_metrics_print(const struct obs_metrics_table *table,
                                   const struct obs_metrics_values *sets, uint32_t set_count,
                                   struct text *text)
{
    for (uint32_t i = 0; i < table->count && !text->full; i++) {
        const struct obs_metric *metric = &table->metrics[i];
        const char *suffix = metric->kind == OBS_COUNTER ? "_total" : "";
        const char *kind = metric->kind == OBS_COUNTER ? "counter" : "gauge";

        text_add(text, "# HELP snowskin_%s_%s%s %s\n", table->module, metric->name, suffix,
                 metric->text);
        text_add(text, "# TYPE snowskin_%s_%s%s %s\n", table->module, metric->name, suffix, kind);
        for (uint32_t j = 0; j < set_count; j++) {
            text_add(text, "snowskin_%s_%s%s", table->module, metric->name, suffix);
            if (sets[j].label != NULL)
                print_label(&sets[j], text);
            text_add(text, " %llu\n", (unsigned long long)sets[j].values[i]);
        }
    }
    return text->full ? SNOW_LIMIT : SNOW_OK;
}
