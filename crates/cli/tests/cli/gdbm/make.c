#include <gdbm.h>
#include <string.h>
#include <stdio.h>
#include <stdlib.h>
static datum d(const void*p,int n){datum x;x.dptr=(char*)p;x.dsize=n;return x;}
int main(int c,char**v){
  int flags=GDBM_NEWDB|(strcmp(v[2],"numsync")==0?GDBM_NUMSYNC:0);
  GDBM_FILE f=gdbm_open(v[1],512,flags,0644,0);
  if(!f){puts(gdbm_strerror(gdbm_errno));return 1;}
  int n=atoi(v[3]);
  for(int i=0;i<n;i++){char k[32],b[64];sprintf(k,"key%d",i);sprintf(b,"value %d",i);gdbm_store(f,d(k,strlen(k)),d(b,strlen(b)),GDBM_REPLACE);}
  for(int i=0;i<n;i+=7){char k[32];sprintf(k,"key%d",i);gdbm_delete(f,d(k,strlen(k)));}
  char big[1500];memset(big,'x',sizeof big);
  gdbm_store(f,d("long",4),d(big,sizeof big),GDBM_REPLACE);
  gdbm_store(f,d("\xff\0\x80\x7f!",5),d("\0\xff\n",3),GDBM_REPLACE);
  gdbm_store(f,d("k",1),d("",0),GDBM_REPLACE);
  gdbm_close(f);return 0;}
