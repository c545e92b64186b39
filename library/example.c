/* Embeds two texts: cc example.c -lpenstock && ./a.out MODEL */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "penstock.h"

static int fail(const penstock_error* error) {
  fprintf(stderr, "%s: %s\n", penstock_error_code(error), penstock_error_message(error));
  return 1;
}

int main(int argc, char** argv) {
  if (argc != 2 || strchr(argv[1], '"') != NULL) {
    fprintf(stderr, "usage: %s MODEL\n", argv[0]);
    return 2;
  }
  char options[4096];
  snprintf(options, sizeof options, "{\"model\": \"%s\"}", argv[1]);
  penstock_error* error = NULL;
  penstock_models* models = penstock_open(options, &error);
  if (models == NULL) {
    const int code = fail(error);
    penstock_error_free(error);
    return code;
  }
  const int64_t offsets[] = {0, 5, 12};
  const penstock_texts texts = {"hellogoodbye", offsets, 2, 64};
  penstock_call* call = penstock_embed(models, &texts, NULL);
  penstock_wait(call, -1);
  penstock_view view;
  int code = 0;
  if (penstock_result(call, &view) == PENSTOCK_ENDED) {
    printf("%" PRId64 " vectors of %" PRId64 " numbers, the first %.6f; %s\n", view.rows,
           view.columns, ((const float*)view.data)[0], view.info);
  } else {
    code = fail(penstock_call_error(call));
  }
  penstock_free(call);
  penstock_close(models);
  return code;
}
